//!use first
// y = the index of the first element of each row, in the order of lib/first.wgsl. y's rows have one element
// each and are side by side as x's are.
// Expects y; p.rows; what lib/first.wgsl expects. A cooperative group (lib/cooperative.wgsl) shares
// a row.

fn compute(at: Member) {
  let row = at.group;
  let start = row_start(row);
  let count = select(0u, p.length, row < p.rows);
  let found = first(at, start, count, true, Ranked(latest(), 0u));
  if (at.rank == 0u && row < p.rows) {
    store_y(row, integer(i32(found.place)));
  }
}
