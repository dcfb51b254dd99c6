//!use flat operands
// y = apply(combine(a, b)), where both operands are broadcast over up to eight dimensions.
// Expects y; combine(a, b); p.count, the V's of y; what lib/operands.wgsl expects. An invocation computes one V.

fn compute(i: u32) {
  let at = coords(i);
  storev_y(i, applyv(combinev(operand_a(at), operand_b(at))));
}
