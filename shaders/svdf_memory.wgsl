//!use member_sums svdf_memory
// y[m, n] and the memories of shaders/svdf.wgsl, whose newest entries are there: for filters that one dispatch does not
// take.
// Expects newest[m, f], of shaders/svdf_entry.wgsl; bias; apply(sum); p.units, p.rank; the filters of a unit from
// p.first.x to p.end.x - 1, and the rounds of the loop over a memory from p.first.y to p.end.y - 1, that this dispatch
// does; what lib/member_sums.wgsl and lib/svdf_memory.wgsl expect.

fn add_part(at: Member, before: T, inside: bool) -> T {
  let n = at.group % p.units;
  let m = at.group / p.units;
  let end = min(u32(p.end.y) * GROUP_SIZE, p.memory);
  var sum = before;
  for (var r = u32(p.first.x); r < select(0u, u32(p.end.x), inside); r++) {
    let f = n * p.rank + r;
    let row = m * p.units * p.rank + f;
    sum = add_memory(at, sum, row, f, load_newest(row), u32(p.first.y) * GROUP_SIZE, end);
  }
  return sum;
}

fn finish(i: u32, sum: T) -> T { return apply(sum + load_bias(i % p.units)); }
