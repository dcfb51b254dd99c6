//!use flat walk
// y[batch, m, n] = sum over k of a[batch, m, k] * b[batch, k, n], with the sums in the order of batch_matmul.wgsl.
// Expects a, b, y; four_b() of lib/columns_together.wgsl or lib/columns_apart.wgsl; put_channels() of lib/rows.wgsl or
// lib/rows_of_fours.wgsl; p.M, p.N, p.K; p.rows and p.columns, the tiles along them; p.batch (extents of the batch
// dimensions), p.a_batch and p.b_batch (strides along them); p.a_step and p.b_step, whose first two numbers are the
// strides along the rows and along the columns of a matrix; p.a_first and p.b_first, where a and b begin. An invocation
// computes 4 rows x 4 columns.

fn compute(i: u32) {
  let line = i / p.columns;
  let stack = line / p.rows;
  let m = (line - stack * p.rows) * 4u;
  let column = i - line * p.columns;
  let n = column * 4u;
  let batch = unravel(stack, p.batch);
  let first = p.a_first + distance(batch, p.a_batch);
  let last = p.M - 1u;
  var at0 = first + m * u32(p.a_step.x);
  var at1 = first + min(m + 1u, last) * u32(p.a_step.x);
  var at2 = first + min(m + 2u, last) * u32(p.a_step.x);
  var at3 = first + min(m + 3u, last) * u32(p.a_step.x);
  var bt = p.b_first + distance(batch, p.b_batch) + n * u32(p.b_step.y);
  var sum0 = V();
  var sum1 = V();
  var sum2 = V();
  var sum3 = V();
  let end = end_of_loop(p.K, m < p.M);
  for (var k = 0u; k < end; k++) {
    let w = four_b(bt, n);
    sum0 += V(load_a(at0)) * w;
    sum1 += V(load_a(at1)) * w;
    sum2 += V(load_a(at2)) * w;
    sum3 += V(load_a(at3)) * w;
    at0 += u32(p.a_step.y);
    at1 += u32(p.a_step.y);
    at2 += u32(p.a_step.y);
    at3 += u32(p.a_step.y);
    bt += u32(p.b_step.x);
  }
  let row = stack * p.M + m;
  put_channels(row, column, sum0);
  if (m + 1u < p.M) { put_channels(row + 1u, column, sum1); }
  if (m + 2u < p.M) { put_channels(row + 2u, column, sum2); }
  if (m + 3u < p.M) { put_channels(row + 3u, column, sum3); }
}
