//!use grid
// The entry point for invocations that are independent of each other: one runs compute(i) for each i below p.count.
// Expects compute(i), p.count.

@compute @workgroup_size(WX, WY, WZ)
fn main(at: Invocation) {
  let i = workgroup_number(at) * WX + at.local.x;
  if (i < p.count) { compute(i); }
}
