//!use zero_points affine_int64
// The functions of lib/requantize.wgsl for sums of 64 bits: those of 16-bit inputs. A product fits into 32 bits; its
// bits below SPLIT and its bits from there on are added up separately.
// Expects y; bias: lower words, and from p.SCALES on upper ones; scales: multipliers of 15 bits, and from p.SCALES on
// shifts; above(product), which is product >> SPLIT; finish(low, high, bias_low, bias_high, multiplier, shift), which
// rescales and clamps.

struct Sum { low: V, high: V }

fn begin(i: u32, n: u32) -> Sum { return Sum(V(), V()); }

fn add(sum: Sum, x: V, w: V) -> Sum {
  let product = x * w;
  return Sum(sum.low + (product & V(T((1u << SPLIT) - 1u))), sum.high + abovev(product));
}

// The sums from the products with the lower and with the upper bytes of x; SPLIT is 8.
fn of_planes(n: u32, low: V, high: V) -> Sum { return Sum(low, high); }

fn whole(low: i32, high: i32, bias_low: i32, bias_high: i32) -> I64 {
  let sum = i64_add(i64_shift_left(i64_from_i32(high), SPLIT), i64_from_i32(low));
  return i64_add(sum, I64(u32(bias_low), u32(bias_high)));
}

// Stores the sums of output channels n as element i.
fn put(i: u32, n: u32, sum: Sum) {
  let m = p.SCALES + n;
  storev_y(i, finishv(sum.low, sum.high, loadv_bias(n), loadv_bias(m), loadv_scales(n), loadv_scales(m)));
}
