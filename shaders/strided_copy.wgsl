//!use flat coords
// y[y_start + at . y_stride] = apply(x[x_start + at . x_stride]) for every point `at` of a space of up to eight
// dimensions.
// Expects x, y; p.count, the V's to copy; p.x_start, p.y_start, p.x_stride, p.y_stride, the strides with a _hi each,
// all counted in V's; what lib/coords.wgsl expects. An invocation copies one V.

fn compute(i: u32) {
  let at = coords(i);
  let source = p.x_start + along(at, p.x_stride, p.x_stride_hi);
  let place = p.y_start + along(at, p.y_stride, p.y_stride_hi);
  storev_y(place, applyv(loadv_x(source)));
}
