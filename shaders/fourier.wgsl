//!use complex grid
// y = one pass of Fourier transforms of x (gpunn/ops/signal/fourier.py).
// Expects x, y; roots, of LENGTH; twiddles, of LENGTH * p.before, if TWIDDLED is 1; factors, which multiply the
// elements of x if SCALED_IN is 1; products, which multiply those of y if SCALED_OUT is 1; number(x), an element of x
// as a C64; VECTORS, the transforms of LENGTH elements of a workgroup, SIZE, all their elements, and p.vectors, the
// transforms of all workgroups; the radices R0, R1, R2, R3, R4 and R5, 1 where there is none, and LAST, 1 if an odd
// number of them is more; ALONG_X and ALONG_Y, 1 where the neighbours in x or in y belong to one transform.
// Vector v is column v % p.inner, and one of p.after * p.before parts of a longer transform:
//   element j of x is at (part / p.before + j * p.after) * p.before + part % p.before, and 0 from p.valid on;
//   element k of y is at (part / p.before * LENGTH + k) * p.before + part % p.before, and dropped from p.kept on.
// Rows of x have p.length elements; of each p.rows, p.used are read. If REVERSED is 1, what belongs at i of y is stored
// at p.whole - i. An invocation computes every WX-th element of each stage.

var<workgroup> work: array<C64, 2u * SIZE>;

struct Part { inside: bool, before: u32, after: u32, row: u32, column: u32 }

fn part_of(vector: u32) -> Part {
  let row = vector / p.inner;
  let parts = p.before * p.after;
  let part = row % parts;
  return Part(vector < p.vectors, part % p.before, part / p.before, row / parts, vector % p.inner);
}

fn loaded(at: Part, j: u32) -> C64 {
  let place = (at.after + j * p.after) * p.before + at.before;
  if (!at.inside || place >= p.valid) { return C64(); }
  let row = (at.row / p.used * p.rows + at.row % p.used) * p.length;
  var v = number(load_x((row + place) * p.inner + at.column));
  if (SCALED_IN == 1u) { v = c64_multiply(v, load_factors(place)); }
  if (TWIDDLED == 1u) { v = c64_multiply(v, load_twiddles(j * at.before)); }
  return v;
}

fn stored(at: Part, k: u32, v: C64) {
  let place = (at.after * LENGTH + k) * p.before + at.before;
  let turned = select(place, (p.whole - place) % p.whole, REVERSED == 1u);
  if (!at.inside || turned >= p.kept) { return; }
  let i = (at.row * p.kept + turned) * p.inner + at.column;
  if (SCALED_OUT == 1u) {
    store_y(i, c64_multiply(v, load_products(turned)));
  } else {
    store_y(i, v);
  }
}

// Makes transforms of span * radix elements of those of span elements; then its results are at the other half.
fn stage(radix: u32, span: u32, half: u32, local: u32) {
  let longer = span * radix;
  let steps = LENGTH / longer;
  for (var e = local; e < SIZE; e += WX) {
    let i = e % LENGTH;
    let k = i % longer;
    let first = half * SIZE + e - i + i / longer * span + k % span;
    let turn = k * steps;
    var sum = work[first];
    var angle = turn;
    for (var j = 1u; j < radix; j++) {
      sum += c64_multiply(work[first + j * steps * span], load_roots(angle));
      angle += turn;
      angle -= select(0u, LENGTH, angle >= LENGTH);
    }
    work[(1u - half) * SIZE + e] = sum;
  }
  workgroupBarrier();
}

@compute @workgroup_size(WX, WY, WZ)
fn main(at: Invocation) {
  let local = at.local.x;
  let first = workgroup_number(at) * VECTORS;
  for (var e = local; e < SIZE; e += WX) {
    let v = select(e % VECTORS, e / LENGTH, ALONG_X == 1u);
    let j = select(e / VECTORS, e % LENGTH, ALONG_X == 1u);
    work[v * LENGTH + j] = loaded(part_of(first + v), j);
  }
  workgroupBarrier();
  if (R0 > 1u) { stage(R0, 1u, 0u, local); }
  if (R1 > 1u) { stage(R1, R0, 1u, local); }
  if (R2 > 1u) { stage(R2, R0 * R1, 0u, local); }
  if (R3 > 1u) { stage(R3, R0 * R1 * R2, 1u, local); }
  if (R4 > 1u) { stage(R4, R0 * R1 * R2 * R3, 0u, local); }
  if (R5 > 1u) { stage(R5, R0 * R1 * R2 * R3 * R4, 1u, local); }
  for (var e = local; e < SIZE; e += WX) {
    let v = select(e % VECTORS, e / LENGTH, ALONG_Y == 1u);
    let k = select(e / VECTORS, e % LENGTH, ALONG_Y == 1u);
    stored(part_of(first + v), k, work[LAST * SIZE + v * LENGTH + k]);
  }
}
