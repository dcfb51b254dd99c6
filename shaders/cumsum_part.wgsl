//!use flat running_sums
// y = the sums of a part of x along rows, up to each element: of elements p.first to before p.end of each row.
// Expects x, y; before and after [rows]: the sums of the elements before the part, and of these and the part; p.count
// (rows), p.length (elements of a row), p.inner (distance between the elements of a row); what lib/running_sums.wgsl
// expects. An invocation sums the part of a row.

fn compute(row: u32) {
  store_after(row, sum_row(row, p.first, p.end, p.length, p.inner, load_before(row)));
}
