//!use running_sums
// Running sums along the axis that a value names.
// Expects along (i32 or int64; below 0: counted from the end); p.axes, the number of axes; axis: for each of them its
// rows, the elements of a row, and the distance between these; what lib/running_sums.wgsl expects.

// Adds the elements from `first` to before `end` of a row to the sum of those before them, and returns the sum of all
// these. The axis may have fewer rows, and its rows fewer elements.
fn sum_named_row(row: u32, first: u32, end: u32, before: T) -> T {
  let named = int_along(0u);
  let axis = 3u * u32(clamp(named + select(0, i32(p.axes), named < 0), 0, i32(p.axes) - 1));
  if (row >= u32(load_axis(axis))) { return before; }
  let length = u32(load_axis(axis + 1u));
  return sum_row(row, first, min(end, length), length, u32(load_axis(axis + 2u)), before);
}
