//!use units
// For each filter f of unit n (p.rank of them, one after another) the memory state[m, f] takes as its newest entry
// entry(sum over k of enter(x[m, k]) * feature[f, k]). Then y[m, n] = apply(bias[n] + sum over f and t of
// recall(state[m, f, t]) * time[f, t]). Then the memory moves on by one: the oldest entry goes, and the newest place
// is entry(0).
// Expects x, feature, time, bias, state; y, state_out; enter(x), entry(sum), recall(v), apply(sum); p.count and
// p.units (lib/units.wgsl); p.rank; p.depth, the extent of x; p.memory, the entries of a memory. A cooperative group
// (lib/cooperative.wgsl) shares a result.

fn share(at: Member, m: u32, n: u32, inside: bool) -> T {
  var sum = T(0);
  for (var r = 0u; r < p.rank; r++) {
    let f = n * p.rank + r;
    var newest = T(0);
    for (var k = at.rank; k < select(0u, p.depth, inside); k += GROUP_SIZE) {
      newest += enter(load_x(m * p.depth + k)) * load_feature(f * p.depth + k);
    }
    newest = entry(all_reduce(at, newest, false));
    let start = (m * p.units * p.rank + f) * p.memory;
    for (var t = at.rank; t < select(0u, p.memory, inside); t += GROUP_SIZE) {
      var v = newest;
      if (t + 1u < p.memory) {
        v = load_state(start + t);
      } else {
        store_state_out(start + t, entry(T(0)));
      }
      sum += recall(v) * load_time(f * p.memory + t);
      if (t > 0u) {
        store_state_out(start + t - 1u, v);
      }
    }
  }
  return sum;
}

fn finish(i: u32, v: T) { store_y(i, v); }
