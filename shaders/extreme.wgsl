//!use first
// y = pick(value, index) of the first of each row (lib/first.wgsl).
// Expects y; p.rows; what lib/first.wgsl expects. y's rows lie like x's, of one element each.

fn compute(at: Member) {
  let row = at.group;
  let start = row_start(row);
  let count = select(0u, p.length, row < p.rows);
  let found = first(at, start, count, true, Ranked(latest(), 0u));
  if (at.rank == 0u && row < p.rows) {
    store_y(row, pick(load_x(start + found.place * p.inner), integer(i32(found.place))));
  }
}
