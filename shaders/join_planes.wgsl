//!use flat
// y = what becomes of sums of products, of which low and high hold those with the lower and with the upper bytes of x.
// Expects low, high, y; of_planes() and put() of lib/requantize.wgsl or lib/requantize_int64.wgsl; p.count, the V's of
// y; p.N, those of its channels. An invocation computes one V.

fn compute(i: u32) {
  let n = i % p.N;
  put(i, n, of_planes(n, loadv_low(i), loadv_high(i)));
}
