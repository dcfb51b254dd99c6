// A packed filter in blocks of p.W4 vec4 columns, each of p.DEPTH rows that lie one behind the other. One block may
// contain all columns.

// Where the weights of column n begin; those of the next row lie p.W4 further on.
fn first_weight(n: u32) -> u32 {
  let block = n / p.W4;
  return block * (p.DEPTH - 1u) * p.W4 + n;
}
