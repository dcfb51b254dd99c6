//!use coords
// Elements of two operands a and b that are broadcast over the coordinates of a result y.
// Expects a, b; A_SPLAT and B_SPLAT (1: the operand has one element along the innermost dimension, and its strides
// count elements, not V's); p.a_stride, p.b_stride, each with a _hi; what lib/coords.wgsl expects.

fn operand_a(at: Coords) -> V_a {
  let i = along(at, p.a_stride, p.a_stride_hi);
  if (A_SPLAT == 1u) {
    return splat_a(i);
  }
  return loadv_a(i);
}

fn operand_b(at: Coords) -> V_b {
  let i = along(at, p.b_stride, p.b_stride_hi);
  if (B_SPLAT == 1u) {
    return splat_b(i);
  }
  return loadv_b(i);
}
