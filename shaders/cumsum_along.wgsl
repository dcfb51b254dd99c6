//!use flat named_axis
// y = the sums of x along the axis that a value names, up to each element.
// Expects x, y; p.count, the rows of the axis that has most; p.length, the elements of the longest rows; what
// lib/named_axis.wgsl expects. An invocation sums a row.

fn compute(row: u32) {
  _ = sum_named_row(row, 0u, p.length, T(0));
}
