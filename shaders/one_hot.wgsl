//!use flat
// y = on where an element's place along the new axis is its index, else off.
// Expects index, on, off (one element each), y; p.count, the number of elements of y, p.depth, the extent of the new
// axis, p.inner, the number of elements behind it. An invocation computes one element.

@compute @workgroup_size(WX, WY, WZ)
fn main(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_id) local: vec3<u32>,
) {
  let i = flat_index(group, groups, local);
  if (i < p.count) {
    let line = i / p.inner;
    let hot = int_index((line / p.depth) * p.inner + i % p.inner) == i32(line % p.depth);
    store_y(i, select(load_off(0u), load_on(0u), hot));
  }
}
