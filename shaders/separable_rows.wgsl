//!use separable_pixels grid
// A depthwise convolution over height and width, and the 1 x 1 convolution behind it, for few pixels. A workgroup of
// 256 computes PIXELS of those between the two, with all their channels, or with FOURS vec4s at a time; from them, in
// its memory, it computes COLUMNS vec4 columns of y. So it waits for loads of x a few times, not in each step.
// Expects y, w [4 K4, 4 N4] and bias [4 N4], with zeros behind the channels; p.M, all pixels; p.N4 (vec4 columns);
// p.ACROSS (workgroups side by side); SPLITS, the invocations that share a sum, a power of two from 4 on; COLUMNS, a
// power of two, up to 256 / SPLITS; AT_ONCE, the vec4s of a pixel that an invocation loads together, 1 or 2;
// put_channels() of lib/rows.wgsl or lib/rows_of_fours.wgsl; what lib/separable_pixels.wgsl expects. An invocation adds
// up every SPLITS-th vec4 of 4 pixels for a vec4 column.

const GROUPS: u32 = WX / (COLUMNS * SPLITS); // of four pixels
const PIXELS: u32 = 4u * GROUPS;
const FOURS: u32 = WX / GROUPS;
const APART: u32 = WX / PIXELS; // the distance between two vec4s of an invocation

struct Sums { a: vec4<T>, b: vec4<T>, c: vec4<T>, d: vec4<T> }

// Each element has four pixels of a vec4 of channels; later the sums of each invocation, of four pixels.
var<workgroup> held: array<array<vec4<T>, 4>, WX>;

@compute @workgroup_size(WX, WY, WZ)
fn main(at: Invocation) {
  let tile = workgroup_number(at);
  let down = tile / p.ACROSS;
  let first = down * PIXELS;
  // The grid may have more workgroups than there are tiles.
  if (first >= p.M) { return; }
  let i = at.local.x;
  let column = i % COLUMNS;
  let split = i / COLUMNS % SPLITS;
  let group = i / (COLUMNS * SPLITS);
  let n = (tile - down * p.ACROSS) * COLUMNS + column;
  let weights = min(n, p.N4 - 1u);
  let pixel = i / (4u * APART) * 4u + i % 4u; // four neighbours store side by side; the next four load what follows
  let row = row_of(min(first + pixel, p.M - 1u));
  var sums = Sums();
  for (var begin = 0u; begin < p.K4; begin += FOURS) {
    let fours = min(FOURS, p.K4 - begin);
    workgroupBarrier();
    var four = i / 4u % APART;
    for (; four + (AT_ONCE - 1u) * APART < fours; four += AT_ONCE * APART) {
      let v = four_at(row, begin + four);
      if (AT_ONCE == 2u) { hold(four + APART, pixel, four_at(row, begin + four + APART)); }
      hold(four, pixel, v);
    }
    if (AT_ONCE == 2u && four < fours) { hold(four, pixel, four_at(row, begin + four)); }
    workgroupBarrier();
    var k = split;
    for (; k + SPLITS < fours; k += 2u * SPLITS) {
      let w = weights_at(begin + k, weights);
      let next = weights_at(begin + k + SPLITS, weights);
      add_products(&sums, w, k * GROUPS + group);
      add_products(&sums, next, (k + SPLITS) * GROUPS + group);
    }
    if (k < fours) { add_products(&sums, weights_at(begin + k, weights), k * GROUPS + group); }
  }
  workgroupBarrier();
  held[i] = array(sums.a, sums.b, sums.c, sums.d);
  workgroupBarrier();
  // Each invocation adds up four splits of one pixel, and the first ones what these have found.
  let which = split % 4u;
  let from4 = (group * SPLITS + split - which) * COLUMNS + column;
  var sum = held[from4][which] + held[from4 + COLUMNS][which];
  sum += held[from4 + 2u * COLUMNS][which] + held[from4 + 3u * COLUMNS][which];
  workgroupBarrier();
  held[i][0] = sum;
  workgroupBarrier();
  let m = first + 4u * group + which;
  if (split >= 4u || m >= p.M || n >= p.N4) { return; }
  for (var other = 4u; other < SPLITS; other += 4u) { sum += held[i + other * COLUMNS][0]; }
  put_channels(m, n, sum + load4_bias(n));
}

// Keeps a vec4 of channels of a pixel.
fn hold(four: u32, pixel: u32, v: vec4<T>) { held[four * GROUPS + pixel / 4u][pixel % 4u] = v; }

// The weights of a vec4 column for a vec4 of the depth.
fn weights_at(k: u32, n: u32) -> mat4x4<T> {
  let q = 4u * k * p.N4 + n;
  return mat4x4<T>(load4_w(q), load4_w(q + p.N4), load4_w(q + 2u * p.N4), load4_w(q + 3u * p.N4));
}

// Adds the products of four pixels.
fn add_products(sums: ptr<function, Sums>, w: mat4x4<T>, at: u32) {
  (*sums).a = added((*sums).a, w, held[at][0]);
  (*sums).b = added((*sums).b, w, held[at][1]);
  (*sums).c = added((*sums).c, w, held[at][2]);
  (*sums).d = added((*sums).d, w, held[at][3]);
}

fn added(sum: vec4<T>, w: mat4x4<T>, x: vec4<T>) -> vec4<T> {
  return sum + w[0] * x.x + w[1] * x.y + w[2] * x.z + w[3] * x.w;
}
