//!use flat
// y[n, h, w, c] = x resampled linearly in h and w.
// Expects x, y; p.count, the number of V's of y; p.channels in V's; p.out_height, p.out_width; p.rows and p.columns,
// each (a, b, c, extent of x): output row i lies at (a i + b) / c. An invocation computes one V.

struct Taps {
  first: u32,
  second: u32,
  past: T, // how far beyond the first, in rows
}

// Integer arithmetic: positions are exact however large the image.
fn taps(i: u32, ratio: vec4<i32>) -> Taps {
  let position = max(i32(i) * ratio.x + ratio.y, 0);
  let first = position / ratio.z;
  let rest = position - first * ratio.z;
  return Taps(u32(first), u32(min(first + 1, ratio.w - 1)), T(rest) / T(ratio.z));
}

fn between(row: u32, across: Taps, channel: u32) -> V {
  let first = loadv_x((row + across.first) * p.channels + channel);
  let second = loadv_x((row + across.second) * p.channels + channel);
  return first * (1.0 - across.past) + second * across.past;
}

@compute @workgroup_size(WX, WY, WZ)
fn main(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_id) local: vec3<u32>,
) {
  let i = flat_index(group, groups, local);
  if (i < p.count) {
    let channel = i % p.channels;
    let pixel = i / p.channels;
    let line = pixel / p.out_width;
    let image = line / p.out_height * u32(p.rows.w);
    let across = taps(pixel % p.out_width, p.columns);
    let down = taps(line % p.out_height, p.rows);
    let width = u32(p.columns.w);
    let above = between((image + down.first) * width, across, channel);
    let below = between((image + down.second) * width, across, channel);
    storev_y(i, above * (1.0 - down.past) + below * down.past);
  }
}
