//!use flat window
// Rows of a product that is a convolution: y[m] has what the window of output pixel m sees, cell by cell, all input
// channels of a cell side by side. Places outside of the input, and elements behind the last cell, are p.absent. T is
// f32, or i32 for integers, also where four elements of 8 bits are copied as a word.
// Expects x [batch, H, W, C]; y [pixels, DEPTH]; p.absent, which stands for a real 0: 0, or the bits of an integer or a
// word; p.C; p.x_pitch and p.x_first, where pixels of x begin; p.KW; p.K, the elements of all cells; p.DEPTH, all of
// which count V's; p.count, the output pixels; put_seen(i, v) of lib/seen.wgsl or lib/seen_bytes.wgsl, which stores the
// elements of a row one after the other; what lib/window.wgsl expects. An invocation writes the row of a pixel.

fn compute(m: u32) {
  let first = corner(m);
  var row = first.row;
  var column = first.column;
  var seen = 0u;
  var c = 0u;
  for (var k = 0u; k < p.DEPTH; k++) {
    let inside = k < p.K && row < p.H && column < p.W;
    let i = (first.base + row * p.W + column) * p.x_pitch + p.x_first + c;
    put_seen(m * p.DEPTH + k, select(V(T(p.absent)), loadv_x(select(0u, i, inside)), inside));
    c++;
    if (c == p.C) {
      c = 0u;
      seen++;
      let ends = seen == p.KW;
      seen = select(seen, 0u, ends);
      row += select(0u, p.DH, ends);
      column = select(column + p.DW, first.column, ends);
    }
  }
}
