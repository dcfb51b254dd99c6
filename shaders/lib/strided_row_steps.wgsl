// Steps of four along the pixels that windows of one pixel with a stride see, as rows of a matrix; there is no padding.
// Expects x [batch, H, W, 4 K4]; p.H, p.W, p.OH, p.OW, p.SH, p.SW (stride); p.x_pitch and p.x_first, where pixels of x
// begin, in fours.
// lib/row_steps.wgsl has the same functions for a stride of one.

fn place_of_row(m: u32) -> u32 {
  let line = m / p.OW;
  let image = line / p.OH;
  let row = image * p.H + (line - image * p.OH) * p.SH;
  return (row * p.W + (m - line * p.OW) * p.SW) * p.x_pitch + p.x_first;
}

fn row_step(place: u32, k: u32) -> vec4<T> { return row4_x(place, column4_x(k)); }
