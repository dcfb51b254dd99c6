//!use flat walk
// y = finish(fold of all x that belong to a result, the result's number).
// Expects x, y; enter(x), an accumulator, fold(acc, x) of two of these, finish(acc, place), p.initial; p.outputs and p.count, the numbers of results (V's) and of terms
// of each; p.kept and p.reduced (extents), p.kept_stride and p.reduced_stride in V's; ONE_RUN (1: the terms lie at
// one stride, p.reduced_stride.w). WX invocations, a power of two, share a result, WY results share a workgroup.

var<workgroup> partial: array<V_acc, WX * WY>;

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
  let result = flat_group(group, groups) * WY + local.y;
  let slot = local.y * WX + local.x;
  var acc = enterv(splatv(T(p.initial)));
  if (result < p.outputs) {
    let start = distance(unravel(result, p.kept), p.kept_stride);
    for (var r = local.x; r < p.count; r += WX) {
      acc = foldv(acc, enterv(loadv_x(start + term(r))));
    }
  }
  partial[slot] = acc;
  for (var half = WX / 2u; half > 0u; half /= 2u) {
    workgroupBarrier();
    if (local.x < half) {
      partial[slot] = foldv(partial[slot], partial[slot + half]);
    }
  }
  if (local.x == 0u && result < p.outputs) {
    storev_y(result, finishv(partial[slot], splatv(integer(i32(result)))));
  }
}
