// Sums of products of quantised tensors as stored integers of 8 bits, to the bit, where halves are rounded upwards and
// shifts are from -12 to -1: what lib/rounded.wgsl computes by lib/affine.wgsl, in half the steps.
//
// A result is the floor of the real number t = (sum * multiplier + 2^30 + 2^(30 - shift)) / 2^(31 - shift). The
// estimate e of t, in f32, has three roundings, one of them in its factor. Within the bounds of the results, where |t|
// <= 256, they are less than 2^-23 * 257 each, in whatever direction, so |e - t| < 2^-13. If e is 2^-13 or more from
// the nearest integer n, it lies on the same side of n as t. Else |t - n| < 2^-12, and the numerator less n * 2^(31 -
// shift) fits an i32. As 2^(31 - shift) is divisible by 2^32, the lowest 32 bits of the numerator are this difference,
// and its sign tells on which side t lies. Beyond the bounds e may be wrong by more, but it stays beyond them. An fma
// instead of a product and a sum has one rounding less.
// Expects scales, p.SCALES: see lib/requantize.wgsl; finish(sum, multiplier, nudge, factor, summand), which is
// estimated(); to_factor(multiplier, shift), to_nudge(shift), to_summand(shift), integers or the bits of an f32;
// p.low and p.high: the bounds of results without their zero point; p.shifted: 1.5 * 2^23 and the zero point.

struct Ending { multiplier: V, nudge: V, factor: V, summand: V }

const NEAR: f32 = 1.220703125e-4; // 2^-13
const BITS_OF_SHIFT: i32 = 0x4b400000; // of 1.5 * 2^23

fn ending(n: u32) -> Ending {
  let multiplier = loadv_scales(n);
  let shift = loadv_scales(p.SCALES + n);
  return Ending(multiplier, to_nudgev(shift), to_factorv(multiplier, shift), to_summandv(shift));
}

fn rescaled(sum: V, by: Ending) -> V { return finishv(sum, by.multiplier, by.nudge, by.factor, by.summand); }

fn estimated(sum: i32, multiplier: i32, nudge: i32, factor: f32, summand: f32) -> i32 {
  let e = f32(sum) * factor + summand;
  let n = floor(e + 0.5);
  let above = e - n;
  // Negative if t is below n.
  let side = select(bitcast<i32>(above), sum * multiplier + nudge, abs(above) < NEAR);
  let floored = clamp(select(n, n - 1.0, side < 0), p.low, p.high);
  // Both are integers below 2^24, so the sum's lowest bits are the result.
  return bitcast<i32>(floored + p.shifted) - BITS_OF_SHIFT;
}
