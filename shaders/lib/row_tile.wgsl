//!use grid split_k
// The entry point for products of few rows: an invocation sums 1 row x 4 channels (a vec4 column). Workgroups count
// TILES columns along x, rows along y. Expects bias [4 N4]; add_products(sum, m, n, split), which adds the products of
// row m and column n in one split of the depth (lib/split_k.wgsl); requantize() of lib/real_sums.wgsl or
// lib/requantize.wgsl; put_channels() of lib/rows.wgsl or lib/rows_of_fours.wgsl; p.N4.

@compute @workgroup_size(WX, WY, WZ)
fn main(at: Invocation) {
  let n = at.workgroup.x * TILES + at.local.x % TILES;
  let m = at.workgroup.y;
  let split = split_of(at.local);
  var sum = select(vec4<T>(), load4_bias(n), split == 0u);
  if (n < p.N4) { sum = add_products(sum, m, n, split); }
  sum = join(at.local, sum);
  if (split == 0u) { put_channels(m, n, requantize(n, sum)); }
}
