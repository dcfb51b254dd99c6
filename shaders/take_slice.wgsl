//!use flat coords starts
// y = a slice of x, from slice_start() on.
// Expects x, y; p.count, the V's of y; p.x_stride and its _hi, counted in V's; what lib/coords.wgsl and lib/starts.wgsl
// expect. An invocation copies one V.

fn compute(i: u32) {
  storev_y(i, loadv_x(slice_start() + along(coords(i), p.x_stride, p.x_stride_hi)));
}
