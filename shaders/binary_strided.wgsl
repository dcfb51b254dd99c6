//!use flat coords
// y = apply(combine(a, b)), operands broadcast over any of up to eight dimensions.
// Expects a, b, y; A_SPLAT and B_SPLAT (1: the operand stands still along the innermost dimension, its strides count
// elements, not V's); p.count, the number of V's of y; p.a_stride, p.b_stride and their _hi; what lib/coords.wgsl
// expects. An invocation computes one V.

fn operand_a(at: Coords) -> V {
  let i = along(at, p.a_stride, p.a_stride_hi);
  if (A_SPLAT == 1u) {
    return V(load_a(i));
  }
  return loadv_a(i);
}

fn operand_b(at: Coords) -> V {
  let i = along(at, p.b_stride, p.b_stride_hi);
  if (B_SPLAT == 1u) {
    return V(load_b(i));
  }
  return loadv_b(i);
}

@compute @workgroup_size(WX, WY, WZ)
fn main(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_id) local: vec3<u32>,
) {
  let i = flat_index(group, groups, local);
  if (i < p.count) {
    let at = coords(i);
    storev_y(i, applyv(combinev(operand_a(at), operand_b(at))));
  }
}
