//!use flat named_axis
// y = the sums of a part of x along the axis that a value names, up to each element: of elements p.first to before
// p.end of each row.
// Expects x, y; before and after: for each row, the sums of the elements before the part, and of these and the part;
// p.count, the rows of the axis that has most; what lib/named_axis.wgsl expects. An invocation sums the part of a row.

fn compute(row: u32) {
  store_after(row, sum_named_row(row, p.first, p.end, load_before(row)));
}
