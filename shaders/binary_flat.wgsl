//!use flat
// y = apply(combine(a, b)), where each operand is like y, repeats over y's inner elements, or is one element. The
// operands may have another type than y.
// Expects a, b, y; combine(a, b); A_MODE and B_MODE (0: like y, 1: repeating, 2: one element); p.count, the V's of y;
// p.period, the V's of a repeating operand. An invocation computes one V.

fn operand_a(i: u32) -> V_a {
  if (A_MODE == 2u) {
    return splat_a(0u);
  }
  if (A_MODE == 1u) {
    return loadv_a(i % p.period);
  }
  return loadv_a(i);
}

fn operand_b(i: u32) -> V_b {
  if (B_MODE == 2u) {
    return splat_b(0u);
  }
  if (B_MODE == 1u) {
    return loadv_b(i % p.period);
  }
  return loadv_b(i);
}

fn compute(i: u32) {
  storev_y(i, applyv(combinev(operand_a(i), operand_b(i))));
}
