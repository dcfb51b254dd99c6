//!use flat
// y = x with the beginning of each sequence in reverse order; a length out of range counts as the nearest inside.
// Expects lengths (i32, or wider), x, y; p.count, the number of V's of y; p.extent, the places of a sequence, which lie
// p.inner V's apart; p.sequences, of which each covers p.span V's at a time. An invocation copies one V.

fn compute(i: u32) {
  let place = i / p.inner % p.extent;
  let length = u32(clamp(int_lengths(i / p.span % p.sequences), 0, i32(p.extent)));
  let mirrored = select(place, length - 1u - place, place < length);
  storev_y(i, loadv_x(i - place * p.inner + mirrored * p.inner));
}
