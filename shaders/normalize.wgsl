//!use team
// y = finish(r, sum of term(r)) along rows, with r = relative(x, the row's maximum of measure(x)).
// Expects x, y; p.rows, p.length (elements of a row), p.inner (distance between a row's elements; rows whose numbers
// differ by less lie side by side); lowest() (no x's measure is less), measure(x), relative(x, top), term(r),
// finish(r, sum). A team (lib/members.wgsl) shares a row.

@compute @workgroup_size(WX, WY, WZ)
fn main(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_id) local: vec3<u32>,
) {
  let row = team_of(group, groups, local);
  let own = member(local);
  let start = row / p.inner * (p.inner * p.length) + row % p.inner;
  let count = select(0u, p.length, row < p.rows);

  var top = lowest();
  for (var k = own; k < count; k += TEAM) {
    top = max(top, measure(load_x(start + k * p.inner)));
  }
  top = across(local, top, true);

  var sum = T(0);
  for (var k = own; k < count; k += TEAM) {
    sum += term(relative(load_x(start + k * p.inner), top));
  }
  sum = across(local, sum, false);

  for (var k = own; k < count; k += TEAM) {
    let i = start + k * p.inner;
    store_y(i, finish(relative(load_x(i), top), sum));
  }
}
