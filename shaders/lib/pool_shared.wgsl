// A pool's result that a team (lib/members.wgsl) shares.

var<workgroup> parts: array<Pooled, WX>;

// The first of those that share a result gets it. All of a workgroup must call it.
fn joined(local: vec3<u32>, part: Pooled) -> Pooled {
  parts[local.x] = part;
  for (var half = TEAM / 2u; half > 0u; half /= 2u) {
    workgroupBarrier();
    if (member(local) < half) {
      let other = parts[local.x + half];
      parts[local.x] = Pooled(combinev(parts[local.x].s, other.s), parts[local.x].count + other.count);
    }
  }
  return parts[local.x];
}
