//!use team
// y[m, n] = apply(bias[n] + sum over k of x[m, k] * w[n, k] + sum over k of h[m, k] * r[n, k]); h_out is the same.
// Expects x, w, r, bias, h; y, h_out; p.count, the number of results; p.units; p.depth, the extent of x.
// A team (lib/members.wgsl) shares a result.

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
  for (var k = own; k < select(0u, p.depth, inside); k += TEAM) {
    sum += load_x(m * p.depth + k) * load_w(n * p.depth + k);
  }
  for (var k = own; k < select(0u, p.units, inside); k += TEAM) {
    sum += load_h(m * p.units + k) * load_r(n * p.units + k);
  }
  sum = across(local, sum, false);
  if (inside && own == 0u) {
    let v = apply(sum + load_bias(n));
    store_h_out(i, v);
    store_y(i, v);
  }
}
