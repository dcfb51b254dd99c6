//!use flat pixels
// The gradient of a convolution with respect to its filter, over a part of the output pixels.
// Expects x [batch, H, W, C], g [batch, OH, OW, N] and y [parts, N, KH, KW, DEPTH]; p.C, p.N, p.DEPTH (input channels
// of a group), p.OF_GROUP (output channels of a group); p.ACROSS (DEPTH / 8) and p.BLOCKS (OF_GROUP / 8), both rounded
// up; p.KH, p.KW; p.SIZE (elements of a part of y); what lib/pixels.wgsl expects; p.units (tiles of a part), p.count
// (of all parts); POINTWISE (1: a pixel sees the one at its own place); X_FOURS and G_FOURS (4: the channels of a group
// are divisible by 4, else 1). An invocation computes 8 output channels x 8 input channels of a cell and a part;
// numbers of invocations count input channels, then output channels, then cells, then parts.

// Four input channels from c on, of a group's channels that end before `end`.
fn four_x(pixel: u32, c: u32, end: u32) -> vec4<T> {
  let i = pixel * p.C + c;
  if (X_FOURS == 4u) { return select(vec4<T>(), load4_x(select(0u, i / 4u, c < end)), c < end); }
  return vec4<T>(
    select(T(), load_x(select(0u, i, c < end)), c < end),
    select(T(), load_x(select(0u, i + 1u, c + 1u < end)), c + 1u < end),
    select(T(), load_x(select(0u, i + 2u, c + 2u < end)), c + 2u < end),
    select(T(), load_x(select(0u, i + 3u, c + 3u < end)), c + 3u < end),
  );
}

// Four output channels from n on, of a group's channels that end before `end`.
fn four_g(m: u32, n: u32, end: u32) -> vec4<T> {
  let i = m * p.N + n;
  if (G_FOURS == 4u) { return select(vec4<T>(), load4_g(select(0u, i / 4u, n < end)), n < end); }
  return vec4<T>(
    select(T(), load_g(select(0u, i, n < end)), n < end),
    select(T(), load_g(select(0u, i + 1u, n + 1u < end)), n + 1u < end),
    select(T(), load_g(select(0u, i + 2u, n + 2u < end)), n + 2u < end),
    select(T(), load_g(select(0u, i + 3u, n + 3u < end)), n + 3u < end),
  );
}

// Sums of an output channel, for eight input channels.
struct Sums { left: vec4<T>, right: vec4<T> }

fn added(sums: Sums, g: T, left: vec4<T>, right: vec4<T>) -> Sums {
  return Sums(sums.left + g * left, sums.right + g * right);
}

fn put_four(i: u32, c: u32, sum: vec4<T>) {
  if (c >= p.DEPTH) { return; }
  if (X_FOURS == 4u) {
    store4_y(i / 4u, sum);
  } else {
    store_y(i, sum.x);
    if (c + 1u < p.DEPTH) { store_y(i + 1u, sum.y); }
    if (c + 2u < p.DEPTH) { store_y(i + 2u, sum.z); }
    if (c + 3u < p.DEPTH) { store_y(i + 3u, sum.w); }
  }
}

fn put(part: u32, n: u32, end: u32, tap: u32, c: u32, sums: Sums) {
  if (n >= end) { return; }
  let i = part * p.SIZE + (n * p.KH * p.KW + tap) * p.DEPTH + c;
  put_four(i, c, sums.left);
  put_four(i + 4u, c + 4u, sums.right);
}

fn compute(i: u32) {
  let part = i / p.units;
  let unit = i - part * p.units;
  let columns = unit / p.ACROSS;
  let c = (unit - columns * p.ACROSS) * 8u;
  let blocks = p.N / p.OF_GROUP * p.BLOCKS;
  let tap = columns / blocks;
  let block = columns - tap * blocks;
  let group = block / p.BLOCKS;
  let n = group * p.OF_GROUP + (block - group * p.BLOCKS) * 8u;
  let n_end = (group + 1u) * p.OF_GROUP;
  let x_first = group * p.DEPTH + c;
  let x_end = (group + 1u) * p.DEPTH;
  let ky = tap / p.KW;
  var at = first_pixel(part * p.share, ky * p.DH, (tap - ky * p.KW) * p.DW);
  let end = min((part + 1u) * p.share, p.M);
  var s0 = Sums();
  var s1 = s0;
  var s2 = s0;
  var s3 = s0;
  var s4 = s0;
  var s5 = s0;
  var s6 = s0;
  var s7 = s0;
  for (var m = part * p.share; m < end; m++) {
    let seen = select(seen_pixel(at), m, POINTWISE == 1u);
    if (POINTWISE == 0u) { at = next_pixel(at); }
    if (seen != OUTSIDE) {
      let left = four_x(seen, x_first, x_end);
      let right = four_x(seen, x_first + 4u, x_end);
      let a = four_g(m, n, n_end);
      let b = four_g(m, n + 4u, n_end);
      s0 = added(s0, a.x, left, right);
      s1 = added(s1, a.y, left, right);
      s2 = added(s2, a.z, left, right);
      s3 = added(s3, a.w, left, right);
      s4 = added(s4, b.x, left, right);
      s5 = added(s5, b.y, left, right);
      s6 = added(s6, b.z, left, right);
      s7 = added(s7, b.w, left, right);
    }
  }
  put(part, n, n_end, tap, c, s0);
  put(part, n + 1u, n_end, tap, c, s1);
  put(part, n + 2u, n_end, tap, c, s2);
  put(part, n + 3u, n_end, tap, c, s3);
  put(part, n + 4u, n_end, tap, c, s4);
  put(part, n + 5u, n_end, tap, c, s5);
  put(part, n + 6u, n_end, tap, c, s6);
  put(part, n + 7u, n_end, tap, c, s7);
}
