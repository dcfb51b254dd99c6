//!use cooperative int64
// y and y_upper [row] = lower and upper words of the sum of term(relative(x, top)) over a part of a row and what
// dispatches before this one have found: shaders/row_part.wgsl for sums of 64 bits.
// Expects x, y, y_upper; top, before and before_upper, of an element for each row; the last two may be absent;
// p.first.x and p.end.x, the elements of the part; p.rows, p.length, p.inner, relative and term, as
// shaders/normalize.wgsl says. A cooperative group (lib/cooperative.wgsl) shares a row.

var<workgroup> partial: array<I64, WX>;

fn compute(at: Member) {
  let row = at.group;
  let start = row / p.inner * (p.inner * p.length) + row % p.inner;
  let end = select(0u, u32(p.end.x), row < p.rows);
  let top = load_top(row);
  var sum = I64();
  if (at.rank == 0u) { sum = I64(u32(load_before(row)), u32(load_before_upper(row))); }
  for (var k = u32(p.first.x) + at.rank; k < end; k += GROUP_SIZE) {
    sum = i64_add(sum, i64_from_i32(term(relative(load_x(start + k * p.inner), top))));
  }
  partial[at.local] = sum;
  for (var half = GROUP_SIZE / 2u; half > 0u; half /= 2u) {
    workgroupBarrier();
    if (at.rank < half) { partial[at.local] = i64_add(partial[at.local], partial[at.local + half]); }
  }
  if (at.rank == 0u && row < p.rows) {
    store_y(row, i32(partial[at.local].x));
    store_y_upper(row, i32(partial[at.local].y));
  }
}
