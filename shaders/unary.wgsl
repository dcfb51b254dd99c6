//!use flat
// y = apply(x), element by element; x may have another type than y.
// Expects x, y; p.count, the V's. An invocation computes one V.

fn compute(i: u32) {
  storev_y(i, applyv(loadv_x(i)));
}
