// Invocations that share a result: WX of them, a power of two; WY results share a workgroup (gpunn/ops/team.py).

var<workgroup> partial: array<T, WX * WY>;

// The maximum, or else the sum, of what the invocations of a team bring. All of a workgroup must call it.
fn across(local: vec3<u32>, v: T, largest: bool) -> T {
  let slot = local.y * WX + local.x;
  workgroupBarrier();
  partial[slot] = v;
  for (var half = WX / 2u; half > 0u; half /= 2u) {
    workgroupBarrier();
    if (local.x < half) {
      let a = partial[slot];
      let b = partial[slot + half];
      partial[slot] = select(a + b, max(a, b), largest);
    }
  }
  workgroupBarrier();
  return partial[local.y * WX];
}
