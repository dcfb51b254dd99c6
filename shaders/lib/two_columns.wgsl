// The columns of a register tile (lib/register_tile.wgsl): two neighbouring vec4 columns. Expects w and bias;
// ending(n) and rescaled(sum, by) of lib/real_sums.wgsl or lib/requantize.wgsl; put_channels() of lib/rows.wgsl or
// lib/rows_of_fours.wgsl. lib/one_column.wgsl has the same for one.

const COLUMNS: u32 = 2u;

struct Columns { left: vec4<T>, right: vec4<T> }

struct Endings { left: Ending, right: Ending }

// The first value of the sums of channels n: the bias in the first split, else 0.
fn bias_of_split(n: u32, split: u32) -> Columns {
  let first = split == 0u;
  return Columns(select(vec4<T>(), load4_bias(n), first), select(vec4<T>(), load4_bias(n + 1u), first));
}

fn weight_columns(q: u32) -> Columns { return Columns(load4_w(q), load4_w(q + 1u)); }

fn added_product(sum: Columns, w: Columns, x: T) -> Columns {
  return Columns(sum.left + w.left * x, sum.right + w.right * x);
}

fn endings(n: u32) -> Endings { return Endings(ending(n), ending(n + 1u)); }

fn put_columns(m: u32, n: u32, row: Columns, by: Endings) {
  put_channels(m, n, rescaled(row.left, by.left));
  put_channels(m, n + 1u, rescaled(row.right, by.right));
}
