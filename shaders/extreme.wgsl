//!use first
// y = pick(value, index) of the first of each row (lib/first.wgsl).
// Expects y; p.rows; what lib/first.wgsl expects. y's rows lie like x's, of one element each.

@compute @workgroup_size(WX, WY, WZ)
fn main(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_id) local: vec3<u32>,
) {
  let row = team_of(group, groups, local);
  let start = row_start(row);
  let count = select(0u, p.length, row < p.rows);
  let found = first(local, start, count, true, Ranked(latest(), 0u));
  if (member(local) == 0u && row < p.rows) {
    store_y(row, pick(load_x(start + found.place * p.inner), integer(i32(found.place))));
  }
}
