// The column of a register tile (lib/register_tile.wgsl) that has only one: lib/two_columns.wgsl has the same for two.
// Expects w and bias; ending(n) and rescaled(sum, by) of lib/real_sums.wgsl or lib/requantize.wgsl; put_channels() of
// lib/rows.wgsl or lib/rows_of_fours.wgsl.

const COLUMNS: u32 = 1u;

alias Columns = vec4<T>;
alias Endings = Ending;

fn bias_of_split(n: u32, split: u32) -> Columns { return select(vec4<T>(), load4_bias(n), split == 0u); }

fn weight_columns(q: u32) -> Columns { return load4_w(q); }

fn added_product(sum: Columns, w: Columns, x: T) -> Columns { return sum + w * x; }

fn endings(n: u32) -> Endings { return ending(n); }

fn put_columns(m: u32, n: u32, row: Columns, by: Endings) { put_channels(m, n, rescaled(row, by)); }
