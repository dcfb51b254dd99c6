//!use zero_points sums_int64
// The functions of lib/requantize_int64.wgsl for a part of the terms, of which dispatches behind this one add up more.
// Expects before, before_upper: see lib/sums_int64.wgsl; y and y_upper: the same with this part; lower_word(low, high,
// lower, upper) and upper_word(low, high, lower, upper), the words of whole().

alias Ending = u32;

fn ending(n: u32) -> Ending { return n; }

fn put(i: u32, n: u32, sum: Sum) { put_by(i, sum, ending(n)); }

// Keeps the sums of output channels n as element i.
fn put_by(i: u32, sum: Sum, n: Ending) {
  let lower = loadv_before(i);
  let upper = loadv_before_upper(i);
  storev_y(i, lower_wordv(sum.low, sum.high, lower, upper));
  storev_y_upper(i, upper_wordv(sum.low, sum.high, lower, upper));
}
