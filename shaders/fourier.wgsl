//!use complex grid
// y = one pass of Fourier transforms of x (gpunn/ops/signal/fourier.py).
// Expects x, y; roots, of LENGTH; twiddles, of LENGTH * p.before, if TWIDDLED is 1, or of 2 * LENGTH, if PACKED is 1;
// factors, which multiply the elements of x if SCALED_IN is 1; products, which multiply those of y if SCALED_OUT is 1;
// number(x), an element of x as a C64; VECTORS, the transforms of LENGTH elements of a workgroup, SIZE, all their
// elements, and p.vectors, the transforms of all workgroups; the radices R0, R1, R2, R3, R4 and R5, 1 where there is
// none, and LAST, 1 if an odd number of them is more; ALONG_X and ALONG_Y, 1 where the neighbours in x or in y belong
// to one transform; PLAIN, 1 if each transform is a row of its own.
// Vector v is column v % p.inner, and one of p.after * p.before parts of a longer transform:
//   element j of x is at (part / p.before + j * p.after) * p.before + part % p.before, and 0 from p.valid on;
//   element k of y is at (part / p.before * LENGTH + k) * p.before + part % p.before, and dropped from p.kept on.
// Rows of x have p.length elements; of each p.rows, p.used are read, if CUT is 1, else all. If REVERSED is 1, what
// belongs at i of y is stored at p.whole - i. If PACKED is 1, the rows have 2 * LENGTH real numbers, and pairs of them
// are the elements. An invocation computes every WX-th element, or butterfly, of each stage.

var<workgroup> work: array<C64, 2u * SIZE>;

struct Part { inside: bool, before: u32, after: u32, row: u32, column: u32 }

fn part_of(vector: u32) -> Part {
  if (PLAIN == 1u) { return Part(vector < p.vectors, 0u, 0u, vector, 0u); }
  let row = vector / p.inner;
  let parts = p.before * p.after;
  let part = row % parts;
  return Part(vector < p.vectors, part % p.before, part / p.before, row / parts, vector % p.inner);
}

fn sample(row: u32, place: u32) -> f32 { return select(0.0, number(load_x(row + place)).x, place < p.valid); }

fn loaded(at: Part, j: u32) -> C64 {
  let place = (at.after + j * p.after) * p.before + at.before;
  if (!at.inside || (PACKED == 0u && place >= p.valid)) { return C64(); }
  var row = at.row;
  if (CUT == 1u) { row = row / p.used * p.rows + row % p.used; }
  row *= p.length;
  if (PACKED == 1u) { return C64(sample(row, 2u * j), sample(row, 2u * j + 1u)); }
  var v = number(load_x((row + place) * p.inner + at.column));
  if (SCALED_IN == 1u) { v = c64_multiply(v, load_factors(place)); }
  if (TWIDDLED == 1u) { v = c64_multiply(v, load_twiddles(j * at.before)); }
  return v;
}

fn stored(at: Part, k: u32, v: C64) {
  let place = (at.after * LENGTH + k) * p.before + at.before;
  let end = select(place, select(p.whole - place, 0u, place == 0u), REVERSED == 1u);
  if (!at.inside || end >= p.kept) { return; }
  let i = (at.row * p.kept + end) * p.inner + at.column;
  if (SCALED_OUT == 1u) {
    store_y(i, c64_multiply(v, load_products(end)));
  } else {
    store_y(i, v);
  }
}

// Makes transforms of span * radix elements of those of span elements; then its results are at the other half.
fn stage(radix: u32, span: u32, half: u32, local: u32) {
  if (radix == 4u) {
    fours(span, half, local);
  } else if (radix == 2u) {
    twos(span, half, local);
  } else {
    sums(radix, span, half, local);
  }
  workgroupBarrier();
}

// Element j of a butterfly, turned; its neighbours in place are a quarter or a half of LENGTH apart.
fn turned(place: u32, turn: u32, span: u32) -> C64 {
  if (span == 1u) { return work[place]; }
  return c64_multiply(work[place], load_roots(turn));
}

fn fours(span: u32, half: u32, local: u32) {
  let quarter = LENGTH / 4u;
  for (var e = local; e < SIZE / 4u; e += WX) {
    let i = e % quarter;
    let k = i % span;
    let turn = k * (quarter / span);
    let first = half * SIZE + (e - i) * 4u + i;
    let a = work[first];
    let b = turned(first + quarter, turn, span);
    let c = turned(first + 2u * quarter, 2u * turn, span);
    let d = turned(first + 3u * quarter, 3u * turn, span);
    let to = (1u - half) * SIZE + (e - k) * 4u + k;
    let even = a + c;
    let odd = b + d;
    let across = a - c;
    let down = C64(b.y - d.y, d.x - b.x); // -i times b - d
    work[to] = even + odd;
    work[to + span] = across + down;
    work[to + 2u * span] = even - odd;
    work[to + 3u * span] = across - down;
  }
}

fn twos(span: u32, half: u32, local: u32) {
  let middle = LENGTH / 2u;
  for (var e = local; e < SIZE / 2u; e += WX) {
    let i = e % middle;
    let k = i % span;
    let first = half * SIZE + (e - i) * 2u + i;
    let a = work[first];
    let b = turned(first + middle, k * (middle / span), span);
    let to = (1u - half) * SIZE + (e - k) * 2u + k;
    work[to] = a + b;
    work[to + span] = a - b;
  }
}

// Any other radix: each element is a sum.
fn sums(radix: u32, span: u32, half: u32, local: u32) {
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
}

// Element k of the transform of 2 * LENGTH real numbers, from that of LENGTH pairs of them.
fn unpacked(first: u32, k: u32) -> C64 {
  let a = work[first + k % LENGTH];
  let b = work[first + (LENGTH - k) % LENGTH] * vec2<f32>(1.0, -1.0);
  let odd = 0.5 * (a - b);
  return 0.5 * (a + b) + c64_multiply(load_twiddles(k), C64(odd.y, -odd.x));
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
  if (PACKED == 1u) {
    for (var e = local; e < SIZE + VECTORS; e += WX) {
      let v = e / (LENGTH + 1u);
      let k = e % (LENGTH + 1u);
      stored(part_of(first + v), k, unpacked(LAST * SIZE + v * LENGTH, k));
    }
    return;
  }
  for (var e = local; e < SIZE; e += WX) {
    let v = select(e % VECTORS, e / LENGTH, ALONG_Y == 1u);
    let k = select(e / VECTORS, e % LENGTH, ALONG_Y == 1u);
    stored(part_of(first + v), k, work[LAST * SIZE + v * LENGTH + k]);
  }
}
