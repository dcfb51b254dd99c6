//!use all_reduce
// y = finish(r, sum, settle(sum)) along rows, with the sum of term(r), where r = relative(x, top) and top is the row's
// maximum of measure(x).
// Expects x, y; p.rows, p.length (elements of a row), p.inner (distance between the elements of a row; rows whose
// numbers differ by less than p.inner are side by side); lowest() (no x has a smaller measure), measure(x), relative(x,
// top), term(r), settle(sum), which is computed once for a row, finish(r, sum, settled). A cooperative group
// (lib/cooperative.wgsl) shares a row.

fn compute(at: Member) {
  let row = at.group;
  let start = row / p.inner * (p.inner * p.length) + row % p.inner;
  let count = select(0u, p.length, row < p.rows);

  var top = lowest();
  for (var k = at.rank; k < count; k += GROUP_SIZE) {
    top = max(top, measure(load_x(start + k * p.inner)));
  }
  top = all_reduce(at, top, true);

  var sum = T(0);
  for (var k = at.rank; k < count; k += GROUP_SIZE) {
    sum += term(relative(load_x(start + k * p.inner), top));
  }
  sum = all_reduce(at, sum, false);

  let settled = settle(sum);
  for (var k = at.rank; k < count; k += GROUP_SIZE) {
    let i = start + k * p.inner;
    store_y(i, finish(relative(load_x(i), top), sum, settled));
  }
}
