//!use window_row requantize
// Quantised convolution over height and width (1 x 1: matrix product) as a product whose operands a workgroup shares
// (lib/workgroup_tile.wgsl), over window cells and words of four input channels in one row.
// Expects x [batch, H, W, 4 words], packed; w [words, 4 N4] with the window cells, then the input channels, along its
// depth; p.PAD (a word of the input's zero point); TOGETHER: 4 divides the words of a pixel, and elements of
// lib/window_row.wgsl are four of them, else one; what lib/workgroup_words.wgsl, lib/window.wgsl and
// lib/window_row.wgsl expect. An invocation computes ROWS output pixels, along [batch, OH, OW] flattened, x 4 COLUMNS
// output channels.

alias Row = Corner;

fn row_of(m: u32) -> Row { return corner(m); }

fn four_at(row: Row, k: u32) -> vec4<i32> {
  if (TOGETHER == 0u) {
    return vec4<i32>(one_at(row, 4u * k), one_at(row, 4u * k + 1u), one_at(row, 4u * k + 2u), one_at(row, 4u * k + 3u));
  }
  let at = element(k);
  let inside = is_inside(row, at);
  let i = select(0u, 4u * (window_at(row) + at.distance), inside);
  let words = vec4<u32>(word_x(i), word_x(i + 1u), word_x(i + 2u), word_x(i + 3u));
  return vec4<i32>(select(vec4<u32>(p.PAD), words, inside));
}

// A word; 0 behind the row.
fn one_at(row: Row, k: u32) -> i32 {
  let at = element(k);
  let inside = is_inside(row, at);
  let word = select(p.PAD, word_x(select(0u, window_at(row) + at.distance, inside)), inside);
  return i32(select(0u, word, at.inside));
}
