//!use flat window
// The sums of a convolution whose products are channels of their own for each cell of the window.
// Expects products [batch, H, W, CELLS], where cell (ky, kx) has N channels from (ky * KW + kx) * N on; bias [N]; y
// [batch, OH, OW, N], p.N, p.CELLS; p.KH, p.KW; p.count, the elements of y; what lib/window.wgsl expects;
// with_all(sum, place), which adds to a sum the products of all cells, that of the first cell is at a place. An
// invocation computes one element.

fn compute(i: u32) {
  let m = i / p.N;
  let n = i - m * p.N;
  let upper_left = corner(m);
  let first = cell(upper_left, 0u, 0u);
  if (first != OUTSIDE && cell(upper_left, p.KH - 1u, p.KW - 1u) != OUTSIDE) {
    store_y(i, apply(with_all(load_bias(n), first * p.CELLS + n)));
    return;
  }
  let rows = end_of_loop(p.KH, n < p.N);
  let columns = end_of_loop(p.KW, n < p.N);
  var sum = load_bias(n);
  for (var ky = 0u; ky < rows; ky++) {
    for (var kx = 0u; kx < columns; kx++) {
      let pixel = cell(upper_left, ky, kx);
      if (pixel != OUTSIDE) { sum += load_products(pixel * p.CELLS + (ky * p.KW + kx) * p.N + n); }
    }
  }
  store_y(i, apply(sum));
}
