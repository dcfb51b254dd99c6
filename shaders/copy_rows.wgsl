//!use flat coords
// y[y_start + at . y_stride] = apply(x[x_start + at . x_stride]) for every point `at` of a space of up to eight
// dimensions, of which an invocation copies up to four, p.apart apart along the innermost dimension: so neighbours
// load and store neighbours.
// Expects x, y; p.count, the invocations; p.row, the innermost extent, of which p.apart is a fourth, rounded up; the
// innermost extent that lib/coords.wgsl sees is p.apart; p.x_start, p.y_start, p.x_stride, p.y_stride, the strides with
// a _hi each; what lib/coords.wgsl expects.

fn compute(i: u32) {
  let at = coords(i);
  let x_step = p.apart * u32(p.x_stride.w);
  let y_step = p.apart * u32(p.y_stride.w);
  let source = p.x_start + along(at, p.x_stride, p.x_stride_hi);
  let place = p.y_start + along(at, p.y_stride, p.y_stride_hi);
  for (var k = 0u; k < 4u; k++) {
    if (at.low.w + k * p.apart < p.row) { store_y(place + k * y_step, apply(load_x(source + k * x_step))); }
  }
}
