//!use flat reach
// y = x where the position that a window names lies, and 0 elsewhere.
// Expects x, positions (row * p.KW + column in the window), both [batch, H, W, C], and y [batch, H * KH, W * KW, C];
// p.count, the V's of y; p.C in V's; p.H, p.W; p.KH, p.KW, the window; p.SH, p.SW, how far apart windows begin; p.PT,
// p.PL, how far above and left of y the first one begins; p.first and p.end: which rows and columns of the windows that
// a pixel is in to look at here; before and resume(value, before), as in lib/chain.wgsl. An invocation computes one V:
// the last window with its position here counts.

fn compute(i: u32) {
  let pixel = i / p.C;
  let c = i - pixel * p.C;
  let width = p.W * p.KW;
  let line = pixel / width;
  let height = p.H * p.KH;
  let image = line / height;
  let y = line - image * height + p.PT;
  let x = pixel - line * width + p.PL;
  let bottom = min(y / p.SH + 1u, p.H);
  let right = min(x / p.SW + 1u, p.W);
  let top = first_window(y, p.KH, p.SH);
  let left = first_window(x, p.KW, p.SW);
  var value = resumev(V(), loadv_before(i));
  for (var row = top + u32(p.first.x); row < min(bottom, top + u32(p.end.x)); row++) {
    for (var column = left + u32(p.first.y); column < min(right, left + u32(p.end.y)); column++) {
      let at = ((image * p.H + row) * p.W + column) * p.C + c;
      let here = i32((y - row * p.SH) * p.KW + x - column * p.SW);
      value = select(value, loadv_x(at), loadv_positions(at) == V_positions(here));
    }
  }
  storev_y(i, value);
}
