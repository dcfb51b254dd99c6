//!use flat
// y = (x - mean) / sqrt(mean of (x - mean)^2 + epsilon), with both means put together from those of parts of the
// elements (shaders/moments.wgsl).
// Expects x, y, mean, squares (in p.parts parts, one behind all of another, and in each part p.each, one behind
// another), p.outputs (results of a part, in V's); p.weight, what share one of them has in the mean, and p.last_weight,
// which part of that one of the last part has; p.epsilon; p.batch, p.line (V's) and p.group, of which each is divided
// into the next; lib/one_group.wgsl, p.group in V's and p.each 1, or lib/several_groups.wgsl; p.span, a multiple of
// p.line; p.count. An invocation computes every p.span-th V of a batch.

fn compute(i: u32) {
  let batch = i / p.span;
  let place = i % p.span;
  let results = results_of(batch, place);

  // Relative to one of the means: the others are about as far from it as the elements are from theirs.
  let near = mean_of(results, 0u, 0u);
  var shift = V();
  var spread = V();
  for (var part = 0u; part < p.parts; part++) {
    let weight = select(1.0, p.last_weight, part + 1u == p.parts);
    for (var k = 0u; k < p.each; k++) {
      let away = mean_of(results, part, k) - near;
      shift += weight * away;
      spread += weight * (squares_of(results, part, k) + away * away);
    }
  }
  shift *= p.weight;
  spread *= p.weight;
  let mean = near + shift;
  let deviation = sqrt(spread - shift * shift + T(p.epsilon));

  let first = batch * p.batch;
  for (var k = place; k < p.batch; k += p.span) {
    storev_y(first + k, (loadv_x(first + k) - mean) / deviation);
  }
}
