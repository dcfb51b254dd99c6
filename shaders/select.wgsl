//!use flat operands
// y = a if the condition c holds, else b; all three are broadcast over up to eight dimensions.
// Expects c (bytes, 0 or not), y; choose(c, a, b), for an element; C_SPLAT, p.c_stride and p.c_stride_hi, as for an
// operand of lib/operands.wgsl; p.count, the V's of y; what lib/operands.wgsl expects. An invocation computes one V.

fn condition(at: Coords) -> V_c {
  let i = along(at, p.c_stride, p.c_stride_hi);
  if (C_SPLAT == 1u) {
    return splat_c(i);
  }
  return loadv_c(i);
}

fn compute(i: u32) {
  let at = coords(i);
  storev_y(i, choosev(condition(at), operand_a(at), operand_b(at)));
}
