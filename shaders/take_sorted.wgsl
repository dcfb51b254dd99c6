//!use flat
// y[row, rank] = pick(value, index) of the row's element of that rank.
// Expects x, sorted (places in x, row by row), y, pick; p.count, the number of elements of y; p.length (elements of a
// row of x), p.k (of y). An invocation takes one element.

@compute @workgroup_size(WX, WY, WZ)
fn main(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_id) local: vec3<u32>,
) {
  let i = flat_index(group, groups, local);
  if (i >= p.count) { return; }
  let start = i / p.k * p.length;
  let place = u32(load_sorted(start + i % p.k));
  store_y(i, pick(load_x(place), integer(i32(place - start))));
}
