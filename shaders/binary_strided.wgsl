//!use flat operands
// y = apply(combine(a, b)), operands broadcast over any of up to eight dimensions.
// Expects y; p.count, the number of V's of y; what lib/operands.wgsl expects. An invocation computes one V.

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
