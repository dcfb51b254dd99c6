// Invocations that share sums of products: SPLITS of them, a power of two, each with every SPLITS-th step of the
// depth. The first split has the bias and, after joining, all of the sum. Expects WX and SPLITS.

const TILES: u32 = WX / SPLITS; // of a workgroup: its invocations count tiles, then splits
const GIVERS: u32 = WX / 2u; // who hand their sums over at a time, at most

var<workgroup> handed: array<vec4<T>, GIVERS>;
var<workgroup> handed_tiles: array<vec4<T>, 16u * GIVERS>;

// Where nothing is shared, compilers shall see it: what is never done still costs lavapipe a fourth of the time.
fn split_of(local: vec3<u32>) -> u32 { return select(0u, local.x / TILES, SPLITS > 1u); }

// All of a workgroup must call it.
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

// The same for eight rows of two columns.
fn join_tile(local: vec3<u32>, left: ptr<function, array<vec4<T>, 8>>, right: ptr<function, array<vec4<T>, 8>>) {
  if (SPLITS == 1u) { return; }
  for (var half = SPLITS / 2u; half > 0u; half /= 2u) {
    let split = split_of(local);
    workgroupBarrier();
    if (split >= half && split < 2u * half) {
      for (var k = 0u; k < 8u; k++) {
        let place = 2u * k * GIVERS + local.x - half * TILES;
        handed_tiles[place] = (*left)[k];
        handed_tiles[place + GIVERS] = (*right)[k];
      }
    }
    workgroupBarrier();
    if (split < half) {
      for (var k = 0u; k < 8u; k++) {
        let place = 2u * k * GIVERS + local.x;
        (*left)[k] += handed_tiles[place];
        (*right)[k] += handed_tiles[place + GIVERS];
      }
    }
  }
}
