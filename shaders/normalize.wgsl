//!use all_reduce
// y = finish(r, sum, settle(sum)) along rows, with the sum of term(r), where r = relative(x, top) and top is the row's
// maximum of measure(x).
// Expects x, y; p.rows, p.length (V's of a row), p.inner (distance between the V's of a row; rows whose numbers differ
// by less than p.inner are side by side, a block), p.x_pitch and p.x_first, where blocks of x begin, in V's;
// lib/by_element.wgsl or lib/by_fours.wgsl; lowest() (no x has a smaller measure), measure(x), relative(x, top),
// term(r), settle(sum), which is computed once for a row, finish(r, sum, settled). A cooperative group
// (lib/cooperative.wgsl) shares a row.

fn compute(at: Member) {
  let row = at.group;
  let block = row / p.inner;
  let start = block * (p.inner * p.length) + row % p.inner;
  let first = p.x_first + block * p.x_pitch + row % p.inner;
  let count = select(0u, p.length, row < p.rows);

  var tops = splatv(lowest());
  for (var k = at.rank; k < count; k += GROUP_SIZE) {
    tops = max(tops, measurev(loadv_x(first + k * p.inner)));
  }
  let top = splatv(all_reduce(at, largest_in(tops), true));

  var sums = V();
  for (var k = at.rank; k < count; k += GROUP_SIZE) {
    sums += termv(relativev(loadv_x(first + k * p.inner), top));
  }
  let sum = all_reduce(at, sum_in(sums), false);

  let settled = splatv(settle(sum));
  for (var k = at.rank; k < count; k += GROUP_SIZE) {
    let place = k * p.inner;
    storev_y(start + place, finishv(relativev(loadv_x(first + place), top), splatv(sum), settled));
  }
}
