//!use flat order
// y[row, rank] = the value (VALUES 1) or the index (VALUES 0) of the row's element of that rank in the order of
// lib/order.wgsl, the lowest index first among equals, for ranks below p.k.
// Expects x, y; p.count, the number of elements of x; p.length (elements of a row), p.k; what lib/order.wgsl expects.
// An invocation ranks one element.

fn key(i: u32) -> i32 { return order(bitcast<i32>(load_x(i))); }

@compute @workgroup_size(WX, WY, WZ)
fn main(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_id) local: vec3<u32>,
) {
  let i = flat_index(group, groups, local);
  if (i >= p.count) { return; }
  let row = i / p.length;
  let start = row * p.length;
  let own = key(i);
  var rank = 0u;
  for (var j = start; j < start + p.length; j++) {
    let other = key(j);
    rank += select(0u, 1u, other > own || (other == own && j < i));
  }
  if (rank < p.k) {
    if (VALUES == 1u) {
      store_y(row * p.k + rank, T(load_x(i)));
    } else {
      store_y(row * p.k + rank, T(i - start));
    }
  }
}
