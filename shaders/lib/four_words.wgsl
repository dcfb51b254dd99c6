// Steps of four words of the depth, 16 input channels, in integer_product.wgsl: what lib/single_words.wgsl has for one.
// Expects x, p.C and p.PAD as that file has them, p.GC divisible by 16; Row, with_word(row, w, word), Columns and
// weight_columns(q) of lib/word_column.wgsl or lib/word_columns.wgsl; p.W4, how far apart the rows of w lie; OUTSIDE;
// POINTWISE: no pixel is OUTSIDE.

const STEP: u32 = 4u;

alias Factor = vec4<i32>;

struct Weights { first: Columns, second: Columns, third: Columns, fourth: Columns }

fn weights_at(q: u32) -> Weights {
  return Weights(
    weight_columns(q),
    weight_columns(q + p.W4),
    weight_columns(q + 2u * p.W4),
    weight_columns(q + 3u * p.W4),
  );
}

fn place_in(pixel: u32, first: u32) -> u32 { return (pixel * p.C + first) / 4u; }

// Four words of a pixel, from channel 16 c on.
fn factor_at(place: u32, c: u32) -> Factor {
  let inside = POINTWISE == 1u || place != OUTSIDE;
  let i = select(0u, place + 4u * c, inside);
  let words = vec4<u32>(word_x(i), word_x(i + 1u), word_x(i + 2u), word_x(i + 3u));
  return vec4<i32>(select(vec4<u32>(p.PAD), words, inside));
}

fn multiply_add(row: Row, w: Weights, x: Factor) -> Row {
  let half = with_word(with_word(row, w.first, x.x), w.second, x.y);
  return with_word(with_word(half, w.third, x.z), w.fourth, x.w);
}
