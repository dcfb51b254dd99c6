//!use flat operands
// y = apply(combine(a, b)), operands broadcast over any of up to eight dimensions.
// Expects y; p.count, the number of V's of y; what lib/operands.wgsl expects. An invocation computes one V.

fn compute(i: u32) {
  let at = coords(i);
  storev_y(i, applyv(combinev(operand_a(at), operand_b(at))));
}
