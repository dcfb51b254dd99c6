//!use flat reach
// y = x where the position that a window names lies, and 0 elsewhere.
// Expects x, positions (row * p.KW + column in the window), both [batch, H, W, C], and y [batch, H * KH, W * KW, C];
// p.count, the V's of y; p.C in V's; p.H, p.W; p.KH, p.KW, the window; p.SH, p.SW, how far apart windows begin; p.PT,
// p.PL, how far above and left of y the first one begins. An invocation computes one V: it looks at all windows that
// the pixel is in, and the last one with its position here counts.

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
  var value = V();
  for (var row = first_window(y, p.KH, p.SH); row < bottom; row++) {
    for (var column = first_window(x, p.KW, p.SW); column < right; column++) {
      let at = ((image * p.H + row) * p.W + column) * p.C + c;
      let here = i32((y - row * p.SH) * p.KW + x - column * p.SW);
      value = select(value, loadv_x(at), loadv_positions(at) == V_positions(here));
    }
  }
  storev_y(i, value);
}
