//!use register_tile
// The rows of a register tile (lib/register_tile.wgsl) of reals: nothing but their sums.

alias Row = Columns;

fn begin_row(n: u32, split: u32) -> Row { return bias_of_split(n, split); }

fn columns(row: Row) -> Columns { return row; }
