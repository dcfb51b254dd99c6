//!use flat by_row
// begins[row] = the number of the first of the sorted updates of a row, for rows that have updates.
// Expects begins; p.count, the updates; p.rows; what lib/by_row.wgsl expects. An invocation looks at an update.

fn compute(k: u32) {
  let row = row_at(k);
  if (u32(row) < p.rows && (k == 0u || row_at(k - 1u) != row)) { store_begins(u32(row), i32(k)); }
}
