// The result of a pool that GROUP_SIZE invocations, a cooperative group (lib/cooperative.wgsl), share.
// Expects combine(s, v).

var<workgroup> parts: array<Pooled, WX>;

// The combination of the parts of all members; the member of rank 0 gets it. All of a workgroup must call it.
fn joined(at: Member, part: Pooled) -> Pooled {
  parts[at.local] = part;
  for (var half = GROUP_SIZE / 2u; half > 0u; half /= 2u) {
    workgroupBarrier();
    if (at.rank < half) {
      let other = parts[at.local + half];
      parts[at.local] = Pooled(combinev(parts[at.local].s, other.s), parts[at.local].count + other.count);
    }
  }
  return parts[at.local];
}
