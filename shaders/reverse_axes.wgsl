//!use flat
// y[d] = d if axes name it, else any axis that they name: a long list of axes as one of p.count, for
// shaders/reverse.wgsl.
// Expects axes (i32 or int64; below 0: counted from the end) and y, i32; before, of y's shape or absent; resume(axis,
// before), which chooses axis or before; p.first.x and p.end.x, the places in the list to look at; p.count, the
// dimensions. An invocation looks for one of them.

fn axis_at(k: u32) -> i32 {
  let axis = int_axes(k);
  return axis + select(0, i32(p.count), axis < 0);
}

fn compute(d: u32) {
  var found = resume(axis_at(0u), load_before(d));
  for (var k = u32(p.first.x); k < u32(p.end.x); k++) {
    if (axis_at(k) == i32(d)) { found = i32(d); }
  }
  store_y(d, found);
}
