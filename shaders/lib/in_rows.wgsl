// The place of element i of a tensor that lies in rows of a larger one: rows of `length` elements with `gap` elements
// between them, from element `first` on. `inverse` is 1 / length. i is below 2^24, so the quotient in f32 is off by
// at most one.

fn in_rows(i: u32, length: u32, gap: u32, first: u32, inverse: f32) -> u32 {
  var row = u32(f32(i) * inverse);
  row -= u32(row * length > i);
  row += u32(i - row * length >= length);
  return i + row * gap + first;
}
