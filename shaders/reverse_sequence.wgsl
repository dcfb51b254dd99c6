//!use flat
// y = x with the beginning of each sequence in reverse order; a length out of range counts as the nearest one inside.
// Expects lengths (i32 or int64), x, y; p.count, the V's of y; p.extent, the places of a sequence; p.inner, the V's
// from one place to the next; p.sequences, and p.span, the V's that each of them covers at a time. An invocation copies
// one V.

fn compute(i: u32) {
  let place = i / p.inner % p.extent;
  let length = u32(clamp(int_lengths(i / p.span % p.sequences), 0, i32(p.extent)));
  let mirrored = select(place, length - 1u - place, place < length);
  storev_y(i, loadv_x(i - place * p.inner + mirrored * p.inner));
}
