//!use flat coords starts
// Puts x into y, from slice_start() on.
// Expects x, y; p.count, the V's of x; p.y_stride and its _hi, counted in V's; what lib/coords.wgsl and lib/starts.wgsl
// expect. An invocation copies one V.

fn compute(i: u32) {
  storev_y(slice_start() + along(coords(i), p.y_stride, p.y_stride_hi), loadv_x(i));
}
