//!use all_reduce
// y[row] = the maximum of measure(x), or the sum of term(relative(x, top)), over a part of a row and what dispatches
// before this one have found: the first two loops of shaders/normalize.wgsl for rows that one dispatch does not take.
// Expects x, y; LARGEST (1: the maximum); top and before, of an element for each row or absent; resume(found, before),
// which chooses found or before; p.first.x and p.end.x, the elements of the part; p.rows, p.length, p.inner and the
// functions lowest, measure, relative and term, as shaders/normalize.wgsl says. A cooperative group
// (lib/cooperative.wgsl) shares a row.

fn compute(at: Member) {
  let row = at.group;
  let start = row / p.inner * (p.inner * p.length) + row % p.inner;
  let end = select(0u, u32(p.end.x), row < p.rows);
  let top = load_top(row);
  var found = select(T(0), lowest(), LARGEST == 1u);
  if (at.rank == 0u) { found = resume(found, load_before(row)); }
  for (var k = u32(p.first.x) + at.rank; k < end; k += GROUP_SIZE) {
    let x = load_x(start + k * p.inner);
    found = select(found + term(relative(x, top)), max(found, measure(x)), LARGEST == 1u);
  }
  found = all_reduce(at, found, LARGEST == 1u);
  if (at.rank == 0u && row < p.rows) { store_y(row, found); }
}
