// Split-K: SPLITS invocations, a power of two, share a sum of products. Each takes every SPLITS-th step of the depth.
// The first one has the bias and, after joining, the whole sum. Expects SPLITS.

const TILES: u32 = WX / SPLITS; // of a workgroup; numbers of invocations count tiles, then splits

// The most invocations that hand their sums over at a time. One if nothing is shared: workgroups that take more memory
// leave less room for others.
const GIVERS: u32 = select(1u, WX / 2u, SPLITS > 1u);

var<workgroup> handed: array<vec4<T>, GIVERS>;

// A constant 0 if nothing is shared, so that compilers drop the code of splits: unused, it still costs lavapipe a
// fourth of the time.
fn split_of(local: vec3<u32>) -> u32 { return select(0u, local.x / TILES, SPLITS > 1u); }

// The sum of all splits; the first split gets it. All of a workgroup must call it.
fn join(local: vec3<u32>, sum: vec4<T>) -> vec4<T> {
  if (SPLITS == 1u) { return sum; }
  var joined = sum;
  for (var half = SPLITS / 2u; half > 0u; half /= 2u) {
    let split = split_of(local);
    workgroupBarrier();
    if (split >= half && split < 2u * half) { handed[local.x - half * TILES] = joined; }
    workgroupBarrier();
    if (split < half) { joined += handed[local.x]; }
  }
  return joined;
}
