//!use flat
// y = the quantised result of sums of products that were computed in two halves: low has the products with the lower
// bytes of x, high those with the upper bytes.
// Expects low, high, y; of_planes() and put() of lib/requantize.wgsl or lib/requantize_int64.wgsl; p.count, the V's of
// y; p.N, the V's of y's channels. An invocation computes one V.

fn compute(i: u32) {
  let n = i % p.N;
  put(i, n, of_planes(n, loadv_low(i), loadv_high(i)));
}
