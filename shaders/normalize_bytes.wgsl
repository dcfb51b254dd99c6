//!use cooperative
// shaders/normalize.wgsl for rows of bytes that lie one behind the other, each computed by one invocation, whole words
// at a time: bytes that are stored alone take two atomic operations each, of which lavapipe computes one at a time. A
// row shares its first and its last word with its neighbours, whose bytes count as its largest.
// Expects x, y; p.rows, p.length (bytes of a row), p.x_first, the word where x begins; lowest, measure, relative, term,
// settle and finish, as shaders/normalize.wgsl says.

// Which bytes of word w are from first up to end.
fn inside(w: u32, first: u32, end: u32) -> vec4<bool> {
  let places = 4u * w + vec4<u32>(0u, 1u, 2u, 3u);
  return (places >= vec4<u32>(first)) & (places < vec4<u32>(end));
}

fn compute(at: Member) {
  if (at.group >= p.rows) { return; }
  let first = at.group * p.length;
  let end = first + p.length;
  let last = (end + 3u) / 4u;

  var tops = vec4<T>(lowest());
  for (var w = first / 4u; w < last; w++) {
    tops = select(tops, max(tops, measure4(load4_x(p.x_first + w))), inside(w, first, end));
  }
  let top = vec4<T>(max(max(tops.x, tops.y), max(tops.z, tops.w)));

  var sums = vec4<T>();
  for (var w = first / 4u; w < last; w++) {
    let own = inside(w, first, end);
    sums += select(vec4<T>(), term4(relative4(select(top, load4_x(p.x_first + w), own), top)), own);
  }
  let sum = (sums.x + sums.y) + (sums.z + sums.w);

  let settled = vec4<T>(settle(sum));
  for (var w = first / 4u; w < last; w++) {
    let own = inside(w, first, end);
    let v = finish4(relative4(select(top, load4_x(p.x_first + w), own), top), vec4<T>(sum), settled);
    if (all(own)) {
      store4_y(w, v);
    } else {
      if (own.x) { store_y(4u * w, v.x); }
      if (own.y) { store_y(4u * w + 1u, v.y); }
      if (own.z) { store_y(4u * w + 2u, v.z); }
      if (own.w) { store_y(4u * w + 3u, v.w); }
    }
  }
}
