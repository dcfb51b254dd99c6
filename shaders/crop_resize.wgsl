//!use flat taps
// y[n, i, j, c] = x[images[n]], resampled linearly at point i between top and bottom of boxes[n], and point j between
// left and right.
// Expects x, boxes (top, left, bottom, right) by fours, images, y; p.count, the V's of y; p.channels in V's; p.height,
// p.width of x; p.out_height, p.out_width; p.more, p.least, p.row_shift, p.row_parts, p.column_shift, p.column_parts.
// Point i lies min(d, (i + shift) * max(least, d + more) / parts) after a start whose end is d further. An invocation
// computes one V.

fn taps(start: f32, end: f32, i: u32, shift: f32, parts: f32, extent: u32) -> Taps {
  let way = end - start;
  let length = abs(way);
  let offset = min(length, (f32(i) + shift) * max(p.least, length + p.more) / parts);
  let position = clamp(start + select(offset, -offset, way < 0.0), 0.0, f32(extent - 1u));
  let first = min(u32(position), extent - 1u);
  let far = position - f32(first);
  let finite = (bitcast<u32>(way) & 0x7f800000u) != 0x7f800000u;
  var not_a_number = 0x7fc00000u; // through a variable: WGSL refuses constants that are not finite
  let weight = select(bitcast<f32>(not_a_number), far, finite);
  return Taps(first, min(first + 1u, extent - 1u), 1.0 - weight, weight);
}

fn compute(i: u32) {
  let channel = i % p.channels;
  let pixel = i / p.channels;
  let line = pixel / p.out_width;
  let n = line / p.out_height;
  let box = load4_boxes(n);
  let across = taps(box.y, box.w, pixel % p.out_width, p.column_shift, p.column_parts, p.width);
  let down = taps(box.x, box.z, line % p.out_height, p.row_shift, p.row_parts, p.height);
  let image = u32(load_images(n)) * p.height;
  let above = between((image + down.first) * p.width, across, channel);
  let below = between((image + down.second) * p.width, across, channel);
  storev_y(i, above * down.near + below * down.far);
}
