//!use register_tile
// The rows of a register tile (lib/register_tile.wgsl) of reals: their sums, and nothing else, are kept and stored.

alias Row = Columns;

fn begin_row(n: u32, slice: u32) -> Row { return bias_of_slice(n, slice); }

fn columns(row: Row) -> Columns { return row; }

fn requantize(n: u32, sum: vec4<T>) -> vec4<T> { return sum; }
