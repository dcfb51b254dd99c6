//!use flat running_sums
// y = the sums of x along the axis that a value names, up to each element.
// Expects along (i32 or int64; below 0: counted from the end), x, y; p.axes, the number of axes; axis: for each of them
// its rows, the elements of a row, and the distance between these; p.count, the rows of the axis that has most; what
// lib/running_sums.wgsl expects. An invocation sums a row.

fn compute(row: u32) {
  let named = int_along(0u);
  let axis = 3u * u32(clamp(named + select(0, i32(p.axes), named < 0), 0, i32(p.axes) - 1));
  if (row < u32(load_axis(axis))) {
    let length = u32(load_axis(axis + 1u));
    _ = sum_row(row, 0u, length, length, u32(load_axis(axis + 2u)), T(0));
  }
}
