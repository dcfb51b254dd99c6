//!use flat running_sums
// y = the sums of x along rows, up to each element.
// Expects x, y; p.count (rows), p.length (elements of a row), p.inner (distance between the elements of a row); what
// lib/running_sums.wgsl expects. An invocation sums a row.

fn compute(row: u32) {
  _ = sum_row(row, 0u, p.length, p.length, p.inner, T(0));
}
