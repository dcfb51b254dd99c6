//!use affine
// Division by the root of a sum in fixed point (gpunn/ops/normalization/l2_integer.py).

// x * 2^left / sqrt(total); a total of 0 counts as 1.
fn by_inverse_root(x: i32, total: i32, left: i32) -> i32 {
  if (total <= 1) { return rescale(x, 2147483647, left, true); }
  let large = total >= 536870912;
  let part = select(total, total >> 2u, large);
  let pairs = (countLeadingZeros(u32(part)) - 1u) / 2u - 1u;
  let half = divide_by_power((part << (2u * pairs)) >> 1u, 1u, true);
  var root = 268435456;
  for (var k = 0; k < 5; k++) {
    let cube = with_three(high_multiply(high_multiply(root, root), root), 6u);
    root = with_three(high_multiply(root, 402653184) - high_multiply(half, cube), 3u); // 3/2 root - half cube
  }
  let down = select(11, 12, large) - i32(pairs);
  let m = high_multiply(root, 1518500250) << u32(max(-down, 0)); // 2^(-1/2)
  return rescale(x, m, left - max(down, 0), true);
}

// A number that has `more` integer bits more than three, with three.
fn with_three(x: i32, more: u32) -> i32 {
  let most = 2147483647 >> more;
  return select(clamp(x, -most, most) << more, 2147483647, x > most);
}
