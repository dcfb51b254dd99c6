//!use flat
// y = apply(x), element by element; x may have another type than y.
// Expects x, y; p.count, the number of V's. An invocation computes one V.

@compute @workgroup_size(WX, WY, WZ)
fn main(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_id) local: vec3<u32>,
) {
  let i = flat_index(group, groups, local);
  if (i < p.count) {
    storev_y(i, applyv(loadv_x(i)));
  }
}
