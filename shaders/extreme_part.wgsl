//!use first
// y = the index of the first element of each row among those of a part and the one that dispatches before this one have
// found: shaders/extreme.wgsl for rows that one dispatch does not take.
// Expects y; before, of an element for each row, or absent; p.first.x and p.end.x, the elements of the part; p.rows;
// what lib/first.wgsl expects. A cooperative group (lib/cooperative.wgsl) shares a row.

fn compute(at: Member) {
  let row = at.group;
  let start = row_start(row);
  let end = select(0u, u32(p.end.x), row < p.rows);
  var best = Ranked(latest(), 0xffffffffu);
  if (p.first.x > 0 && row < p.rows) {
    best.place = u32(int_before(row));
    best.key = order(load_x(start + best.place * p.inner));
  }
  for (var k = u32(p.first.x) + at.rank; k < end; k += GROUP_SIZE) {
    let found = Ranked(order(load_x(start + k * p.inner)), k);
    if (precedes(found, best)) { best = found; }
  }
  best = foremost(at, best);
  if (at.rank == 0u && row < p.rows) { store_y(row, integer(i32(best.place))); }
}
