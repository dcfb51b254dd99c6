//!use zero_points sums_int64
// The functions of lib/requantize.wgsl for the sums of lib/sums_int64.wgsl.
// Expects y; before, before_upper: see there; bias: lower words, and from p.SCALES on upper ones; scales: multipliers,
// and from p.SCALES on shifts; finish(low, high, bias_low, bias_high, lower, upper, multiplier, shift), which adds up
// the words of all parts, rescales and clamps.

alias Ending = u32;

fn ending(n: u32) -> Ending { return n; }

fn put(i: u32, n: u32, sum: Sum) { put_by(i, sum, ending(n)); }

// Stores the sums of output channels n as element i.
fn put_by(i: u32, sum: Sum, n: Ending) {
  let m = p.SCALES + n;
  let lower = loadv_before(i);
  let upper = loadv_before_upper(i);
  storev_y(
    i,
    finishv(sum.low, sum.high, loadv_bias(n), loadv_bias(m), lower, upper, loadv_scales(n), loadv_scales(m)),
  );
}
