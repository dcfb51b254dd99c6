//!use flat window
// y = where in its window the maximum lies: row * p.KW + column.
// Expects x [batch, H, W, C], y [batch, OH, OW, C]; p.KH, p.KW, p.C, p.count; PARTS (1: p.first and p.end are the rows
// and columns of the window to look at here; 0: all); before, the place among the cells before these, -1 if they lie
// outside of x, or absent; resume(place, before), which chooses -1 or before; what lib/window.wgsl expects; the order
// of lib/order.wgsl. An invocation computes one element; of equal values the first one counts.

fn compute(i: u32) {
  let m = i / p.C;
  let c = i - m * p.C;
  let upper_left = corner(m);
  let begins = select(vec2<u32>(), vec2<u32>(p.first.xy), PARTS == 1u);
  let ends = select(vec2<u32>(p.KH, p.KW), vec2<u32>(p.end.xy), PARTS == 1u);
  var best = latest();
  var place = u32(resume(-1, load_before(i)));
  if (place != OUTSIDE) {
    best = order(load_x(cell(upper_left, place / p.KW, place % p.KW) * p.C + c));
  }
  for (var ky = begins.x; ky < ends.x; ky++) {
    for (var kx = begins.y; kx < ends.y; kx++) {
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
