//!use coords
// Each element of y is one of x's, and along each axis its coordinate alone says which.
// Expects x; came_from(at, before, extent), the coordinates in x of those in y, in four dimensions; p.before (elements
// in front), p.extent (of x), p.x_stride, each with a _hi, innermost counted in V's; what lib/coords.wgsl expects.

fn element(i: u32) -> V {
  let y = coords(i);
  let x = Coords(came_from(y.low, p.before, p.extent), came_from(y.high, p.before_hi, p.extent_hi));
  return loadv_x(along(x, p.x_stride, p.x_stride_hi));
}
