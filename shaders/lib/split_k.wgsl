// Split-K: SPLITS invocations, a power of two, share a sum of products. Each takes every SPLITS-th step of the depth.
// The first one has the bias and, after joining, the whole sum. Expects SPLITS.

const TILES: u32 = WX / SPLITS; // of a workgroup; numbers of invocations count tiles, then splits

// The invocations that hand their sums over. One if nothing is shared: workgroups that take more memory leave less room
// for others.
const GIVERS: u32 = select(1u, WX, SPLITS > 1u);

var<workgroup> handed: array<vec4<T>, GIVERS>;

// A constant 0 if nothing is shared, so that compilers drop the code of splits: unused, it still costs lavapipe a
// fourth of the time.
fn split_of(local: vec3<u32>) -> u32 { return select(0u, local.x / TILES, SPLITS > 1u); }

// The sum of all splits; the first split gets it. All of a workgroup must call it, once.
fn join(local: vec3<u32>, sum: vec4<T>) -> vec4<T> {
  if (SPLITS == 1u) { return sum; }
  handed[local.x] = sum;
  workgroupBarrier();
  var joined = sum;
  if (split_of(local) == 0u) {
    for (var split = 1u; split < SPLITS; split++) { joined += handed[local.x + split * TILES]; }
  }
  return joined;
}
