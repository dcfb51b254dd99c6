//!use affine
// Division by the root of a sum in fixed point (gpunn/ops/normalization/l2_integer.py).

// x * 2^left / sqrt(total); a total of 0 counts as 1.
fn by_inverse_root(x: i32, total: i32, left: i32) -> i32 {
  let large = total >= 536870912;
  return by_root_of_part(x, select(total, total >> 2u, large), u32(large), left);
}

// The same for a total of part * 4^gone, where part is below 2^29.
fn by_root_of_part(x: i32, part: i32, gone: u32, left: i32) -> i32 {
  if (part <= 1) { return rescale(x, 2147483647, left, true); }
  let pairs = (countLeadingZeros(u32(part)) - 1u) / 2u - 1u;
  let half = divide_by_power((part << (2u * pairs)) >> 1u, 1u, true);
  var root = 268435456;
  for (var k = 0; k < 5; k++) {
    let cube = with_three(high_multiply(high_multiply(root, root), root), 6u);
    root = with_three(high_multiply(root, 402653184) - high_multiply(half, cube), 3u); // 3/2 root - half cube
  }
  let down = 11 + i32(gone) - i32(pairs);
  let m = high_multiply(root, 1518500250) << u32(max(-down, 0)); // 2^(-1/2)
  return rescale(x, m, left - max(down, 0), true);
}

// A number that has `more` integer bits more than three, with three.
fn with_three(x: i32, more: u32) -> i32 {
  let most = 2147483647 >> more;
  return select(clamp(x, -most, most) << more, 2147483647, x > most);
}
