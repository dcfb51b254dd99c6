//!use flat
// y = what becomes of sums of products, of which low and high hold those with the lower and with the upper bytes of x.
// Expects low, high, y; of_planes() and put() of lib/requantize.wgsl or lib/requantize_wide.wgsl; p.count, the V's of
// y; p.N, those of its channels. An invocation computes one V.

@compute @workgroup_size(WX, WY, WZ)
fn main(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_id) local: vec3<u32>,
) {
  let i = flat_index(group, groups, local);
  if (i < p.count) {
    let n = i % p.N;
    put(i, n, of_planes(n, loadv_low(i), loadv_high(i)));
  }
}
