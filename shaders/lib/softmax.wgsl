//!use affine totals
// The last steps of softmax and log_softmax in fixed point (gpunn/ops/normalization/softmax_integer.py). A total is
// about 1 or more.

// 1 / x with no integer bits, for x from 1 to 2; gets x / 2.
fn over(half: i32) -> i32 {
  var x = 1515870810 + high_multiply(-1010580540, half); // 48/17 - 32/17 half
  for (var k = 0; k < 3; k++) {
    x += high_multiply(536870912 - high_multiply(half, x), x) << 2u; // 1 - half x
  }
  return left_saturating(x, 1u);
}

fn left_saturating(x: i32, n: u32) -> i32 {
  let most = 2147483647 >> n;
  return select(x << n, 2147483647, x > most);
}

// 1 / total, as much larger as it has bits too many.
fn over_total(total: Total) -> i32 { return over(total.sum << (countLeadingZeros(u32(total.sum)) - 1u)); }

// weight / total in steps of 2^-fraction; weight has no integer bits, reciprocal is over_total(total).
fn softmax_share(weight: i32, reciprocal: i32, total: Total, fraction: i32) -> i32 {
  let exponent = u32(total.bits + 31 - fraction) - countLeadingZeros(u32(total.sum));
  let share = divide_by_power(high_multiply(weight, reciprocal), min(exponent, 31u), true);
  return select(share, 0, exponent > 31u);
}

// The logarithm of a total, with five integer bits: a quotient of polynomials around 2^(-1/4), and a power of two.
fn log_of_sum(total: Total) -> i32 {
  let leading = countLeadingZeros(u32(total.sum));
  let headroom = countLeadingZeros(u32(high_multiply(total.sum, 1518500250))) - 1u; // 2^(-1/2)
  let first = left_saturating(high_multiply(total.sum << (leading - 1u), 1518500250), 1u);
  let r = min(first, left_saturating(total.sum, headroom));
  let power = max(
    ((total.bits - i32(leading)) << 25u) + 8388608,
    ((total.bits - i32(headroom)) << 25u) - 8388608,
  );
  let middle = i32((u32(r) + 1805811302u) >> 1u); // 2^(-1/4), and 1 to round upwards
  let apart = (r - 1805811301) << 1u;
  let square = high_multiply(apart, apart);
  let above = high_multiply(apart, r) + high_multiply(high_multiply(apart, square), 117049297);
  let below = high_multiply(middle, apart + 1057819769 + high_multiply(square, 127690142))
    + high_multiply(apart, 638450708);
  let quotient = high_multiply(divide_by_power(above, 6u, true), over(i32((u32(below) + 0x80000000u) >> 1u)));
  return (high_multiply(power, 1488522236) + quotient) << 1u; // log(2)
}
