//!use member_sums svdf_features
// y[m, f] = the newest entry of filter f, as shaders/svdf.wgsl computes it: for filters that one dispatch does not
// take.
// Expects entry(sum); p.units * p.rank, the filters; p.first.x and p.end.x, the rounds of the loop over features that
// this dispatch does; what lib/member_sums.wgsl and lib/svdf_features.wgsl expect.

fn add_part(at: Member, before: T, inside: bool) -> T {
  let filters = p.units * p.rank;
  let m = at.group / filters;
  let end = min(u32(p.end.x) * GROUP_SIZE, p.depth);
  return add_features(at, before, m, at.group % filters, u32(p.first.x) * GROUP_SIZE, select(0u, end, inside));
}

fn finish(i: u32, sum: T) -> T { return entry(sum); }
