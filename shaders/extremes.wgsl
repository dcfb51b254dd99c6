//!use first
// y = pick(value, index) of the first p.k of each row (lib/first.wgsl), which is walked for each of them.
// Expects y; p.rows, p.k; what lib/first.wgsl expects. y's rows lie like x's, of p.k elements each. For one of each row
// there is extreme.wgsl: without the loop lavapipe takes half the time.

fn compute(at: Member) {
  let row = at.group;
  let start = row_start(row);
  let count = select(0u, p.length, row < p.rows);
  var last = Ranked(latest(), 0u);
  for (var rank = 0u; rank < p.k; rank++) {
    last = first(at, start, count, rank == 0u, last);
    if (at.rank == 0u && row < p.rows) {
      let at = (row / p.inner * p.k + rank) * p.inner + row % p.inner;
      store_y(at, pick(load_x(start + last.place * p.inner), integer(i32(last.place))));
    }
    workgroupBarrier();
    last = Ranked(keys[at.local - at.rank], places[at.local - at.rank]);
    workgroupBarrier();
  }
}
