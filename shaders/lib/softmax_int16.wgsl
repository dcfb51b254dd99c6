// Softmax of int16 (gpunn/ops/normalization/softmax_int16.py).
// Expects table: an interpolation table of the exponential, and from POINTS on one of 1 / (1 + x).

const POINTS: u32 = 513u;

// The value at x of the interpolation table that begins at `start`. The 16 bits of x cover its range; two points are
// 128 apart.
fn between(x: i32, start: u32) -> i32 {
  let place = start + u32((x >> 7u) + 256);
  let low = load_table(place);
  return low + (((load_table(place + 1u) - low) * (x & 127) + 64) >> 7u);
}

// A term of a row, from its distance below the row's maximum.
fn int16_term(below: i32) -> i32 { return between(below + 32767, 0u); }

// term / total in steps of 2^-15; total is at least 2, and below 2^31.
fn int16_share(term: i32, total: i32) -> i32 {
  let spare = countLeadingZeros(u32(total)) - 1u;
  let leading = i32(((u32(total) << spare) + 8192u) >> 14u);
  let inverse = between(clamp(leading - 98304, -32768, 32767), POINTS);
  return clamp((term * inverse + (1 << (29u - spare))) >> (30u - spare), 0, 32767);
}
