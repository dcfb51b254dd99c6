//!use members walk
// y = finish(fold of all x that belong to a result, the result's number).
// Expects x, y; enter(x), an accumulator, fold(acc, x) of two of these, finish(acc, place), p.initial; p.outputs and
// p.count, the numbers of results (V's) and of terms of each; p.kept and p.reduced (extents), p.kept_stride and
// p.reduced_stride in V's; ONE_RUN (1: the terms lie at one stride, p.reduced_stride.w). A team (lib/members.wgsl)
// shares a result.

var<workgroup> partial: array<V_acc, WX>;

fn term(r: u32) -> u32 {
  if (ONE_RUN == 1u) {
    return r * u32(p.reduced_stride.w);
  }
  return distance(unravel(r, p.reduced), p.reduced_stride);
}

@compute @workgroup_size(WX, WY, WZ)
fn main(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_id) local: vec3<u32>,
) {
  let result = team_of(group, groups, local);
  let own = member(local);
  var acc = enterv(splatv(T(p.initial)));
  if (result < p.outputs) {
    let start = distance(unravel(result, p.kept), p.kept_stride);
    for (var r = own; r < p.count; r += TEAM) {
      acc = foldv(acc, enterv(loadv_x(start + term(r))));
    }
  }
  partial[local.x] = acc;
  for (var half = TEAM / 2u; half > 0u; half /= 2u) {
    workgroupBarrier();
    if (own < half) {
      partial[local.x] = foldv(partial[local.x], partial[local.x + half]);
    }
  }
  if (own == 0u && result < p.outputs) {
    storev_y(result, finishv(partial[local.x], splatv(integer(i32(result)))));
  }
}
