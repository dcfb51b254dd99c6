//!use all_reduce svdf_features svdf_memory
// For each filter f of unit n (p.rank of them, one after another) the memory state[m, f] takes as its newest entry
// entry(sum over k of enter(x[m, k]) * feature[f, k]). Then y[m, n] = apply(bias[n] + sum over f and t of
// recall(state[m, f, t]) * time[f, t]). Then the memory moves on by one: the oldest entry goes, and the newest place
// is entry(0).
// Expects y, bias; apply(sum); p.count, the results; p.units, those of a row; p.rank; what lib/svdf_features.wgsl and
// lib/svdf_memory.wgsl expect. A cooperative group (lib/cooperative.wgsl) shares a result.

fn compute(at: Member) {
  let i = at.group;
  let inside = i < p.count;
  let m = i / p.units;
  let n = i % p.units;
  var sum = T(0);
  for (var r = 0u; r < p.rank; r++) {
    let f = n * p.rank + r;
    let terms = add_features(at, T(0), m, f, 0u, select(0u, p.depth, inside));
    let newest = entry(all_reduce(at, terms, false));
    sum = add_memory(at, sum, m * p.units * p.rank + f, f, newest, 0u, select(0u, p.memory, inside));
  }
  sum = all_reduce(at, sum, false);
  if (inside && at.rank == 0u) { store_y(i, apply(sum + load_bias(n))); }
}
