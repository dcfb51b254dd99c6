//!use flat
// sorted = the rows that updates name, and the updates' numbers, in the order of rows and then of numbers within each WX
// updates. One that names a place outside gets the row 0x7ffffffe (lib/sorted.wgsl), behind all others.
// Expects index (i32 or wider), sorted; p.updates, with p.width indices each, of which the first p.depth are a place within the
// extents of `extent`. An invocation places one update.

var<workgroup> rows: array<i32, WX>;

fn row_of(update: u32) -> i32 {
  var row = 0;
  for (var d = 0u; d < p.depth; d++) {
    let place = int_index(update * p.width + d);
    if (place < 0 || place >= load_extent(d)) { return 0x7ffffffe; }
    row = row * load_extent(d) + place;
  }
  return row;
}

@compute @workgroup_size(WX, WY, WZ)
fn main(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_id) local: vec3<u32>,
) {
  let i = flat_index(group, groups, local);
  let own = row_of(min(i, p.updates - 1u));
  rows[local.x] = own;
  workgroupBarrier();
  let first = i - local.x;
  let count = min(WX, p.updates - min(first, p.updates));
  var rank = 0u;
  for (var k = 0u; k < count; k++) {
    rank += select(0u, 1u, rows[k] < own || (rows[k] == own && k < local.x));
  }
  if (i < p.updates) {
    store_sorted(2u * (first + rank), own);
    store_sorted(2u * (first + rank) + 1u, i32(i));
  }
}
