//!use flat
// y = x in reverse order along the axes that values name.
// Expects axes (i32 or int64; below 0: counted from the end), x, y; p.axes, how many they are; p.rank, the dimensions
// of x, at most 32; place: the extent of each dimension, and the distance between its elements; p.count, the elements
// of y. An invocation copies one element.

fn compute(i: u32) {
  var reversed = 0u;
  for (var k = 0u; k < p.axes; k++) {
    let axis = int_axes(k);
    reversed |= 1u << u32(axis + select(0, i32(p.rank), axis < 0));
  }
  var source = i32(i);
  for (var d = 0u; d < p.rank; d++) {
    if ((reversed >> d & 1u) == 1u) {
      let extent = load_place(2u * d);
      let step = load_place(2u * d + 1u);
      source += (extent - 1 - 2 * (i32(i) / step % extent)) * step;
    }
  }
  store_y(i, load_x(u32(source)));
}
