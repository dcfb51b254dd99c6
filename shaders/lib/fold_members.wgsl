//!use cooperative
// A fold over a cooperative group. Expects combine(acc, x) of two accumulators.

var<workgroup> partial: array<V_acc, WX>;

// What the members of a group have folded together, in the first of them. All of a workgroup must call it. A group of
// one needs no memory of a workgroup, with which lavapipe takes 20 ms longer to compile.
fn folded(at: Member, acc: V_acc) -> V_acc {
  partial[at.local] = acc;
  for (var half = GROUP_SIZE / 2u; half > 0u; half /= 2u) {
    workgroupBarrier();
    if (at.rank < half) {
      partial[at.local] = combinev(partial[at.local], partial[at.local + half]);
    }
  }
  return partial[at.local];
}
