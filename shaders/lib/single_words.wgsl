// Steps of one word of the depth, four input channels, in integer_product.wgsl. Expects x, p.C, p.GC and p.PAD as that
// file has them; Row, with_word(row, w, word), Columns and weight_columns(q) of lib/word_column.wgsl or
// lib/word_columns.wgsl; OUTSIDE; ALIGNED: GC is divisible by 4; POINTWISE: no pixel is OUTSIDE.

const STEP: u32 = 1u;

alias Factor = i32;
alias Weights = Columns;

fn weights_at(q: u32) -> Weights { return weight_columns(q); }

fn place_in(pixel: u32, first: u32) -> u32 { return pixel * p.C + first; }

// A word of four input channels of a pixel, from channel 4 c on.
fn factor_at(place: u32, c: u32) -> Factor {
  let inside = POINTWISE == 1u || place != OUTSIDE;
  let i = select(0u, place + 4u * c, inside);
  var word = word_x(i >> 2u);
  if (ALIGNED == 0u) {
    let shift = (i & 3u) * 8u;
    let next = word_x((i >> 2u) + 1u);
    word = (word >> shift) | ((next << (31u - shift)) << 1u);
    word = insertBits(p.PAD, word, 0u, 8u * min(p.GC - 4u * c, 4u));
  }
  return i32(select(p.PAD, word, inside));
}

fn multiply_add(row: Row, w: Weights, x: Factor) -> Row { return with_word(row, w, x); }
