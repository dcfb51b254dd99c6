//!use grid
// y[m, n] = apply(sum[m, n] + bias[n] + sum over k of x[m, k] * w[n, k]), for any depth and k from p.first to before
// p.end. The filter is not repacked.
// Expects x [M, K], w [N, K], bias [N], sum [M, N], y; p.M, p.K, p.N, p.first, p.end; p.ROWS and p.COLUMNS, the rows
// and channels of a layer of the grid; p.ACROSS, how many layers have the same rows. An invocation computes one value;
// x of its place in the grid counts channels, y counts rows, z layers.

@compute @workgroup_size(WX, WY, WZ)
fn main(at: Invocation) {
  let n = at.workgroup.z % p.ACROSS * p.COLUMNS + at.workgroup.x * WX + at.local.x;
  let m = at.workgroup.z / p.ACROSS * p.ROWS + at.workgroup.y;
  if (n >= p.N || m >= p.M) { return; }
  let i = m * p.N + n;
  var sum = load_sum(i) + load_bias(n);
  for (var k = p.first; k < p.end; k++) {
    sum += load_x(m * p.K + k) * load_w(n * p.K + k);
  }
  store_y(i, apply(sum));
}
