//!use flat taps nan
// y[n, i, j, c] = x[n], resampled linearly at the point that the first two rows of matrix[n] map (j, i, 0, 1) to; 0 for
// points outside of x.
// Expects x, matrix (by fours: one row), y; p.count, the V's of y; p.channels in V's; p.height, p.width of x;
// p.out_height, p.out_width; p.centre, what rows and columns are more than they count, on both sides. An invocation
// computes one V.

fn position(row: vec4<f32>, column: f32, line: f32) -> f32 {
  return row.x * column + row.y * line + (row.w + (row.x * p.centre + row.y * p.centre - p.centre));
}

// Whether a position lies between the first and the last of `extent` pixels.
fn within(at: f32, extent: u32) -> bool { return !is_nan(at) && at >= 0.0 && at <= f32(extent - 1u); }

fn taps(at: f32, extent: u32) -> Taps {
  let first = min(u32(at), extent - 1u);
  let far = at - f32(first);
  return Taps(first, min(first + 1u, extent - 1u), 1.0 - far, far);
}

fn compute(i: u32) {
  let channel = i % p.channels;
  let pixel = i / p.channels;
  let line = pixel / p.out_width;
  let n = line / p.out_height;
  let column = f32(pixel % p.out_width);
  let row = f32(line % p.out_height);
  let x = position(load4_matrix(4u * n), column, row);
  let y = position(load4_matrix(4u * n + 1u), column, row);
  var value = V();
  if (within(x, p.width) && within(y, p.height)) {
    let across = taps(x, p.width);
    let down = taps(y, p.height);
    let above = between((n * p.height + down.first) * p.width, across, channel);
    let below = between((n * p.height + down.second) * p.width, across, channel);
    value = above * down.near + below * down.far;
  }
  storev_y(i, value);
}
