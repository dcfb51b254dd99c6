//!use all_reduce
// y = (x - mean) / sqrt(mean of (x - mean)^2 + epsilon) along rows; with CENTRED 0 the first mean is 0.
// Expects x, y; p.rows, p.length (V's of a row), p.inner (distance between the V's of a row; rows whose numbers differ
// by less than p.inner are side by side, a block), p.x_pitch and p.x_first, where blocks of x begin, in V's; p.share
// (1 / elements of a row), p.epsilon; lib/by_element.wgsl or lib/by_fours.wgsl; CENTRED. A cooperative group
// (lib/cooperative.wgsl) shares a row.

fn compute(at: Member) {
  let row = at.group;
  let block = row / p.inner;
  let start = block * (p.inner * p.length) + row % p.inner;
  let first = p.x_first + block * p.x_pitch + row % p.inner;
  let count = select(0u, p.length, row < p.rows);

  var mean = V();
  if (CENTRED == 1u) {
    for (var k = at.rank; k < count; k += GROUP_SIZE) { mean += loadv_x(first + k * p.inner); }
    mean = splatv(all_reduce(at, sum_in(mean), false) * T(p.share));
  }

  var squares = V();
  for (var k = at.rank; k < count; k += GROUP_SIZE) {
    let away = loadv_x(first + k * p.inner) - mean;
    squares += away * away;
  }
  let spread = sqrt(all_reduce(at, sum_in(squares), false) * T(p.share) + T(p.epsilon));

  for (var k = at.rank; k < count; k += GROUP_SIZE) {
    let place = k * p.inner;
    storev_y(start + place, (loadv_x(first + place) - mean) / spread);
  }
}
