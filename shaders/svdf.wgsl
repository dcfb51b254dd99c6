//!use team
// For each filter f of unit n (p.rank of them, one after another) the memory state[m, f] takes as its newest entry
// entry(sum over k of enter(x[m, k]) * feature[f, k]); y[m, n] = apply(bias[n] + sum over f and t of state[m, f, t]
// * time[f, t]); then the memory moves on by one: the oldest entry goes, the newest place is 0.
// Expects x, feature, time, bias, state; y, state_out; enter(x), entry(sum), apply(sum); p.count, the number of
// results; p.units, p.rank; p.depth, the extent of x; p.memory, the entries of a memory. A team (lib/members.wgsl)
// shares a result.

@compute @workgroup_size(WX, WY, WZ)
fn main(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_id) local: vec3<u32>,
) {
  let i = team_of(group, groups, local);
  let own = member(local);
  let inside = i < p.count;
  let m = i / p.units;
  let n = i % p.units;
  var sum = T(0);
  for (var r = 0u; r < p.rank; r++) {
    let f = n * p.rank + r;
    var newest = T(0);
    for (var k = own; k < select(0u, p.depth, inside); k += TEAM) {
      newest += enter(load_x(m * p.depth + k)) * load_feature(f * p.depth + k);
    }
    newest = entry(across(local, newest, false));
    let start = (m * p.units * p.rank + f) * p.memory;
    for (var t = own; t < select(0u, p.memory, inside); t += TEAM) {
      var v = newest;
      if (t + 1u < p.memory) {
        v = load_state(start + t);
      } else {
        store_state_out(start + t, T(0));
      }
      sum += v * load_time(f * p.memory + t);
      if (t > 0u) {
        store_state_out(start + t - 1u, v);
      }
    }
  }
  sum = across(local, sum, false);
  if (inside && own == 0u) {
    store_y(i, apply(sum + load_bias(n)));
  }
}
