//!use flat
// y[n, h, w, c] = x[n, rows[h], columns[w], c].
// Expects x, y, rows and columns (i32); p.channels in V's; PER, the V's of a pixel that an invocation copies, p.apart
// apart; p.count, the invocations; p.height, p.width; p.out_height, p.out_width.

fn compute(i: u32) {
  let pixel = i / p.apart;
  let line = pixel / p.out_width;
  let row = line / p.out_height * p.height + u32(load_rows(line % p.out_height));
  let column = u32(load_columns(pixel % p.out_width));
  for (var k = 0u; k < PER; k++) {
    let channel = i - pixel * p.apart + k * p.apart;
    if (k == 0u || channel < p.channels) {
      storev_y(pixel * p.channels + channel, loadv_x((row * p.width + column) * p.channels + channel));
    }
  }
}
