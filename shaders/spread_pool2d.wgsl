//!use flat reach
// y = the sum of x over all windows that a pixel is in, or over those whose position names the pixel.
// Expects x, positions (row * p.KW + column in the window; absent unless CHOOSES is 1), both [batch, OH, OW, C], and y
// [batch, H, W, C]; p.count, the V's of y; p.C in V's; p.H, p.W, p.OH, p.OW, p.KH, p.KW, p.SH, p.SW (stride), p.PT and
// p.PL (padding); p.first and p.end: which rows and columns of the windows that a pixel is in to look at here; before
// and resume(sum, before), as in lib/chain.wgsl. An invocation computes one V.

fn compute(i: u32) {
  let pixel = i / p.C;
  let c = i - pixel * p.C;
  let line = pixel / p.W;
  let image = line / p.H;
  let y = line - image * p.H + p.PT;
  let x = pixel - line * p.W + p.PL;
  let bottom = min(y / p.SH + 1u, p.OH);
  let right = min(x / p.SW + 1u, p.OW);
  let top = first_window(y, p.KH, p.SH);
  let left = first_window(x, p.KW, p.SW);
  var sum = resumev(V(), loadv_before(i));
  for (var row = top + u32(p.first.x); row < min(bottom, top + u32(p.end.x)); row++) {
    for (var column = left + u32(p.first.y); column < min(right, left + u32(p.end.y)); column++) {
      let at = ((image * p.OH + row) * p.OW + column) * p.C + c;
      let value = loadv_x(at);
      if (CHOOSES == 1u) {
        let here = i32((y - row * p.SH) * p.KW + x - column * p.SW);
        sum += select(V(), value, loadv_positions(at) == V_positions(T_positions(here)));
      } else {
        sum += value;
      }
    }
  }
  storev_y(i, sum);
}
