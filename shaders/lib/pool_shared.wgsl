// The result of a pool that GROUP_SIZE invocations, a cooperative group (lib/cooperative.wgsl), share.
// Expects combine(s, v).

var<workgroup> parts: array<V, WX>;

// The combination of the parts of all members; the member of rank 0 gets it. All of a workgroup must call it.
fn joined(at: Member, part: V) -> V {
  parts[at.local] = part;
  for (var half = GROUP_SIZE / 2u; half > 0u; half /= 2u) {
    workgroupBarrier();
    if (at.rank < half) {
      parts[at.local] = combinev(parts[at.local], parts[at.local + half]);
    }
  }
  return parts[at.local];
}
