//!use member_sums
// y[m, n] = apply(bias[n] + sum over k of x[m, k] * w[n, k] + sum over k of h[m, k] * r[n, k]); h_out is the same.
// Expects x, w, r, bias, h; h_out; apply(x); p.units, those of a row; p.depth, the extent of x; p.first.x and p.end.x,
// the rounds of both loops, one after the other, that this dispatch does; what lib/member_sums.wgsl expects.

fn add_part(at: Member, before: T, inside: bool) -> T {
  let m = at.group / p.units;
  let n = at.group % p.units;
  let rounds = (p.depth + GROUP_SIZE - 1u) / GROUP_SIZE;
  let first = u32(p.first.x);
  let end = select(0u, u32(p.end.x), inside);
  var sum = before;
  for (var k = first * GROUP_SIZE + at.rank; k < min(end * GROUP_SIZE, p.depth); k += GROUP_SIZE) {
    sum += load_x(m * p.depth + k) * load_w(n * p.depth + k);
  }
  let states = min((max(end, rounds) - rounds) * GROUP_SIZE, p.units);
  for (var k = (max(first, rounds) - rounds) * GROUP_SIZE + at.rank; k < states; k += GROUP_SIZE) {
    sum += load_h(m * p.units + k) * load_r(n * p.units + k);
  }
  return sum;
}

fn finish(i: u32, sum: T) -> T {
  let v = apply(sum + load_bias(i % p.units));
  store_h_out(i, v);
  return v;
}
