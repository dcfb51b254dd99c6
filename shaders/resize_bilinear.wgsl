//!use flat taps
// y[n, h, w, c] = x, resampled linearly along h and w.
// Expects x, y; p.channels in V's; SEVERAL (1: an invocation computes several V's of a pixel, 0: one), p.apart, how far
// apart these lie; p.count, the invocations; p.out_height, p.out_width; p.rows and p.columns, each (a, b, c, extent of
// x): output row i is at (a i + b) / c; part(n, c), the weight of a row that gives n of c parts; joined(above, below,
// near, far), the weighted sum of two rows, which apply() finishes.

// Integer arithmetic: positions are exact however large the image.
fn taps(i: u32, ratio: vec4<i32>) -> Taps {
  let position = max(i32(i) * ratio.x + ratio.y, 0);
  let first = min(position / ratio.z, ratio.w - 1);
  let past = position - first * ratio.z;
  let whole = T(ratio.z);
  return Taps(
    u32(first),
    u32(min(first + 1, ratio.w - 1)),
    part(T(ratio.z - past), whole),
    part(T(past), whole),
  );
}

fn put(pixel: u32, channel: u32, image: u32, down: Taps, across: Taps) {
  let width = u32(p.columns.w);
  let above = between((image + down.first) * width, across, channel);
  let below = between((image + down.second) * width, across, channel);
  storev_y(pixel * p.channels + channel, applyv(joinedv(above, below, V(down.near), V(down.far))));
}

fn compute(i: u32) {
  let pixel = i / p.apart;
  let first = i - pixel * p.apart;
  let line = pixel / p.out_width;
  let image = line / p.out_height * u32(p.rows.w);
  let across = taps(pixel % p.out_width, p.columns);
  let down = taps(line % p.out_height, p.rows);
  if (SEVERAL == 0u) {
    put(pixel, first, image, down, across);
  } else {
    for (var channel = first; channel < p.channels; channel += p.apart) {
      put(pixel, channel, image, down, across);
    }
  }
}
