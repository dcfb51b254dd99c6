//!use flat
// y[n, h, w, c] = x[n, rows[h], columns[w], c].
// Expects x, y, rows and columns (i32); p.channels in V's; p.apart, the V's of a pixel from one that an invocation
// copies to the next one; p.count, the invocations; p.height, p.width; p.out_height, p.out_width.

fn compute(i: u32) {
  let pixel = i / p.apart;
  let line = pixel / p.out_width;
  let row = line / p.out_height * p.height + u32(load_rows(line % p.out_height));
  let column = u32(load_columns(pixel % p.out_width));
  for (var channel = i - pixel * p.apart; channel < p.channels; channel += p.apart) {
    storev_y(pixel * p.channels + channel, loadv_x((row * p.width + column) * p.channels + channel));
  }
}
