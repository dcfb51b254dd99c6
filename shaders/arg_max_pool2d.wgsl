//!use flat window
// y = where in its window the maximum lies: row * p.KW + column.
// Expects x [batch, H, W, C], y [batch, OH, OW, C]; p.KH, p.KW, p.C, p.count; what lib/window.wgsl expects; the order
// of lib/order.wgsl. An invocation computes one element; of equal values the first one counts.

fn compute(i: u32) {
  let m = i / p.C;
  let c = i - m * p.C;
  let upper_left = corner(m);
  var best = latest();
  var place = OUTSIDE;
  for (var ky = 0u; ky < p.KH; ky++) {
    for (var kx = 0u; kx < p.KW; kx++) {
      let pixel = cell(upper_left, ky, kx);
      if (pixel != OUTSIDE) {
        let key = order(load_x(pixel * p.C + c));
        if (place == OUTSIDE || sooner(key, best)) {
          best = key;
          place = ky * p.KW + kx;
        }
      }
    }
  }
  store_y(i, i32(place));
}
