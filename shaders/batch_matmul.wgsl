//!use flat walk
// y[batch, m, n] = sum over k of a[batch, m, k] * b[batch, k, n].
// Expects a, b, y; the functions of lib/real.wgsl and lib/chain.wgsl; p.count, the V's of y; p.M, p.N (V's of a row of
// y); p.first.x and p.end.x, the k to add up here; p.batch (extents of the batch dimensions), p.a_batch and p.b_batch
// (strides along them); p.a_step and p.b_step, whose first two numbers are the strides along the rows and along the
// columns of a matrix; p.a_first and p.b_first, where a and b begin. Strides of b, and where it begins, count V's. An
// invocation computes one V.

fn compute(i: u32) {
  let line = i / p.N;
  let n = i % p.N;
  let batch = unravel(line / p.M, p.batch);
  var at = p.a_first + distance(batch, p.a_batch) + line % p.M * u32(p.a_step.x);
  var bt = p.b_first + distance(batch, p.b_batch) + n * u32(p.b_step.y);
  let first = u32(p.first.x);
  at += first * u32(p.a_step.y);
  bt += first * u32(p.b_step.x);
  var sum = begin(i, n);
  let end = end_of_loop(u32(p.end.x), n < p.N);
  for (var k = first; k < end; k++) {
    sum = add(sum, enter(V(load_a(at))), weigh(loadv_b(bt)));
    at += u32(p.a_step.y);
    bt += u32(p.b_step.x);
  }
  put(i, n, sum);
}
