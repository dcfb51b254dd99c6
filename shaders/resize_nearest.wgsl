//!use flat
// y[n, h, w, c] = x[n, rows[h], columns[w], c].
// Expects x, y, rows and columns (i32); p.count, the V's of y; p.channels in V's; p.height, p.width; p.out_height,
// p.out_width. An invocation copies one V.

fn compute(i: u32) {
  let pixel = i / p.channels;
  let line = pixel / p.out_width;
  let row = line / p.out_height * p.height + u32(load_rows(line % p.out_height));
  let column = u32(load_columns(pixel % p.out_width));
  storev_y(i, loadv_x((row * p.width + column) * p.channels + i % p.channels));
}
