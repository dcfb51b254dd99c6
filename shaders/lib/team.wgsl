//!use members
// What the invocations of a team (lib/members.wgsl) make together.

var<workgroup> partial: array<T, WX>;

// The maximum, or else the sum, of what the invocations of a team bring. All of a workgroup must call it.
fn across(local: vec3<u32>, v: T, largest: bool) -> T {
  workgroupBarrier();
  partial[local.x] = v;
  for (var half = TEAM / 2u; half > 0u; half /= 2u) {
    workgroupBarrier();
    if (member(local) < half) {
      let a = partial[local.x];
      let b = partial[local.x + half];
      partial[local.x] = select(a + b, max(a, b), largest);
    }
  }
  workgroupBarrier();
  return partial[local.x - member(local)];
}
