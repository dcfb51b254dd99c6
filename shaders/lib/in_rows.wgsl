// How many whole rows of `length` elements lie before element i; `inverse` is 1 / length. i is below 2^24, so the
// quotient in f32 is off by at most one.

fn rows_before(i: u32, length: u32, inverse: f32) -> u32 {
  var row = u32(f32(i) * inverse);
  row -= u32(row * length > i);
  return row + u32(i - row * length >= length);
}
