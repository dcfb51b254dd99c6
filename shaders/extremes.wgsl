//!use first
// y = the first p.k elements of each row in the order of lib/first.wgsl, index = their places in it. Each of them takes
// a walk along the row. y's rows have p.k elements each and are side by side as x's are.
// Expects y, index; p.rows, p.k; what lib/first.wgsl expects. A cooperative group (lib/cooperative.wgsl)
// shares a row. For p.k 1 there is extreme.wgsl: without the loop lavapipe takes half the time.

fn compute(at: Member) {
  let row = at.group;
  let start = row_start(row);
  let count = select(0u, p.length, row < p.rows);
  var last = Ranked(latest(), 0u);
  for (var rank = 0u; rank < p.k; rank++) {
    last = first(at, start, count, rank == 0u, last);
    if (at.rank == 0u && row < p.rows) {
      let at = (row / p.inner * p.k + rank) * p.inner + row % p.inner;
      store_y(at, load_x(start + last.place * p.inner));
      store_index(at, i32(last.place));
    }
    workgroupBarrier();
    last = Ranked(keys[at.local - at.rank], places[at.local - at.rank]);
    workgroupBarrier();
  }
}
