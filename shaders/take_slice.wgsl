//!use flat coords starts
// y = a slice of x, from slice_start() on.
// Expects x; lib/each.wgsl or lib/each_of_four.wgsl; p.x_stride and its _hi, counted in V's; what lib/coords.wgsl and
// lib/starts.wgsl expect.

fn element(i: u32) -> V {
  return loadv_x(slice_start() + along(coords(i), p.x_stride, p.x_stride_hi));
}
