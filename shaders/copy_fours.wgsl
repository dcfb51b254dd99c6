//!use flat coords
// y[y_start + at . y_stride] = apply(four elements of x, p.step apart, from x_start + at . x_stride on) for every point
// `at` of a space of up to eight dimensions.
// Expects x, y; p.count, the fours to copy; p.x_start, p.step and p.x_stride, counted in elements, p.y_start and
// p.y_stride, counted in fours, the strides with a _hi each; ONE (1: the four elements are one, p.step is 0); what
// lib/coords.wgsl expects. An invocation copies four elements.

fn four(i: u32) -> V {
  if (ONE == 1u) { return splat_x(i); }
  return V(load_x(i), load_x(i + p.step), load_x(i + 2u * p.step), load_x(i + 3u * p.step));
}

fn compute(i: u32) {
  let at = coords(i);
  let source = p.x_start + along(at, p.x_stride, p.x_stride_hi);
  let place = p.y_start + along(at, p.y_stride, p.y_stride_hi);
  storev_y(place, applyv(four(source)));
}
