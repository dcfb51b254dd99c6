// Four columns of a matrix, wherever they lie, or those that there are. In place of others an element is loaded that is
// there, and nothing is stored.
// Expects b, y; p.N, the elements of a row of y; p.b_step, whose second number is the stride along the columns.

// The columns from element `at` on; n is the first.
fn four_b(at: u32, n: u32) -> V {
  let step = u32(p.b_step.y);
  let last = p.N - 1u - n;
  let at1 = at + min(1u, last) * step;
  let at2 = at + min(2u, last) * step;
  let at3 = at + min(3u, last) * step;
  return V(load_b(at), load_b(at1), load_b(at2), load_b(at3));
}

// Stores them in row m from column n on.
fn keep(m: u32, n: u32, sum: V) {
  let i = m * p.N + n;
  store_y(i, sum.x);
  if (n + 1u < p.N) { store_y(i + 1u, sum.y); }
  if (n + 2u < p.N) { store_y(i + 2u, sum.z); }
  if (n + 3u < p.N) { store_y(i + 3u, sum.w); }
}
