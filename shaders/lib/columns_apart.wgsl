// Four columns of a matrix, wherever they lie, or those that there are: in place of others an element is loaded that is
// there. Expects b; p.N, the columns; p.b_step, whose second number is the stride along the columns.
// lib/columns_together.wgsl has the same function for columns side by side.

// The columns from element `at` on; n is the first.
fn four_b(at: u32, n: u32) -> vec4<T> {
  let step = u32(p.b_step.y);
  let last = p.N - 1u - n;
  let at1 = at + min(1u, last) * step;
  let at2 = at + min(2u, last) * step;
  let at3 = at + min(3u, last) * step;
  return vec4<T>(load_b(at), load_b(at1), load_b(at2), load_b(at3));
}
