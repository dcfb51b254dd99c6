//!use flat
// y[m, n] = apply(sum[m, n] + bias[n] + sum over k of x[m, k] * w[n, k]), for any depth and k from p.first to before
// p.end. The filter is not repacked.
// Expects x [M, K], w [N, K], bias [N], sum [M, N], y; p.count (M * N), p.K, p.N, p.first, p.end. An invocation
// computes one value.

fn compute(i: u32) {
  let m = i / p.N;
  let n = i - m * p.N;
  var sum = load_sum(i) + load_bias(n);
  for (var k = p.first; k < p.end; k++) {
    sum += load_x(m * p.K + k) * load_w(n * p.K + k);
  }
  store_y(i, apply(sum));
}
