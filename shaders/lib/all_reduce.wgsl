//!use cooperative
// Reductions over a cooperative group (lib/cooperative.wgsl) that give every member the result.

var<workgroup> partial: array<T, WX>;

// The maximum, or else the sum, of the values that the members of a group bring. All of a workgroup must call it.
// A group of one needs no barriers, for which lavapipe takes 20 ms to compile.
fn all_reduce(at: Member, v: T, largest: bool) -> T {
  if (GROUP_SIZE == 1u) { return v; }
  workgroupBarrier();
  partial[at.local] = v;
  for (var half = GROUP_SIZE / 2u; half > 0u; half /= 2u) {
    workgroupBarrier();
    if (at.rank < half) {
      let a = partial[at.local];
      let b = partial[at.local + half];
      partial[at.local] = select(a + b, max(a, b), largest);
    }
  }
  workgroupBarrier();
  return partial[at.local - at.rank];
}
