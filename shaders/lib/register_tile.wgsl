//!use tiles
// The entry point for register-tiled products: an invocation keeps the sums of 8 rows x 8 channels (two vec4 columns)
// in registers and loads each weight once for all rows. Rows are those of a matrix, or output pixels.
//
// SPLITS invocations share a tile (lib/split_k.wgsl). Rows past the end are computed on the last row and not stored.
// Expects
//   bias [4 N4]; Row, the sums of a row; begin_row(n, split), which has the bias; columns(row), the two vec4s to store;
//   Weights, those of a step of the depth for both columns; load_weights(q); STEP, the rows of w that a step takes;
//   load_factor(place, first, c), what step c of the depth multiplies; first: see Depth;
//   multiply_add(row, weights, factor);
//   add_products(sums, m, n, split), which calls add_depth() for rows from m on;
//   requantize(n, sums) of lib/real_tile.wgsl or lib/requantize.wgsl; put_channels() of lib/rows.wgsl or
//   lib/rows_of_fours.wgsl; p.M (rows), p.N4 (vec4 columns of w and the bias, an even number).

// Not an array: lavapipe keeps indexed arrays in memory.
struct Sums { r0: Row, r1: Row, r2: Row, r3: Row, r4: Row, r5: Row, r6: Row, r7: Row }

// Two neighbouring vec4 columns.
struct Columns { left: vec4<T>, right: vec4<T> }

// What of the rows enters some channels: `steps` steps, from element `first` of a row on.
struct Depth { first: u32, steps: u32 }

@compute @workgroup_size(WX, WY, WZ)
fn main(at: Invocation) {
  let tile = tile_of(at);
  let n = tile.column * 2u;
  let m = tile.row * 8u;
  let split = split_of(at.local);
  let begin = begin_row(n, split);
  var sums = Sums(begin, begin, begin, begin, begin, begin, begin, begin);
  if (n < p.N4 && m < p.M) { add_products(&sums, m, n, split); }
  put_tile(at.local, m, n, &sums);
}

// What the sums of channels n begin with: the bias in the first split.
fn bias_of_split(n: u32, split: u32) -> Columns {
  let first = split == 0u;
  return Columns(select(vec4<T>(), load4_bias(n), first), select(vec4<T>(), load4_bias(n + 1u), first));
}

// Adds the products of a split of the depth. places: those of the eight rows; q: the first weight.
fn add_depth(sums: ptr<function, Sums>, places: array<u32, 8>, depth: Depth, q: u32, split: u32) {
  var next = q + split * STEP * p.N4;
  for (var c = split; c < depth.steps; c += SPLITS) {
    let w = load_weights(next);
    next += SPLITS * STEP * p.N4;
    (*sums).r0 = multiply_add((*sums).r0, w, load_factor(places[0], depth.first, c));
    (*sums).r1 = multiply_add((*sums).r1, w, load_factor(places[1], depth.first, c));
    (*sums).r2 = multiply_add((*sums).r2, w, load_factor(places[2], depth.first, c));
    (*sums).r3 = multiply_add((*sums).r3, w, load_factor(places[3], depth.first, c));
    (*sums).r4 = multiply_add((*sums).r4, w, load_factor(places[4], depth.first, c));
    (*sums).r5 = multiply_add((*sums).r5, w, load_factor(places[5], depth.first, c));
    (*sums).r6 = multiply_add((*sums).r6, w, load_factor(places[6], depth.first, c));
    (*sums).r7 = multiply_add((*sums).r7, w, load_factor(places[7], depth.first, c));
  }
}

// Rows from m on, joined from their splits; those past the end are left out. All of a workgroup must call it.
fn put_tile(local: vec3<u32>, m: u32, n: u32, sums: ptr<function, Sums>) {
  let c0 = columns((*sums).r0); let c1 = columns((*sums).r1);
  let c2 = columns((*sums).r2); let c3 = columns((*sums).r3);
  let c4 = columns((*sums).r4); let c5 = columns((*sums).r5);
  let c6 = columns((*sums).r6); let c7 = columns((*sums).r7);
  var a = array(c0.left, c1.left, c2.left, c3.left, c4.left, c5.left, c6.left, c7.left);
  var b = array(c0.right, c1.right, c2.right, c3.right, c4.right, c5.right, c6.right, c7.right);
  join_tile(local, &a, &b);
  if (split_of(local) > 0u) { return; }
  put_row(m, n, a[0], b[0]);
  put_row(m + 1u, n, a[1], b[1]);
  put_row(m + 2u, n, a[2], b[2]);
  put_row(m + 3u, n, a[3], b[3]);
  put_row(m + 4u, n, a[4], b[4]);
  put_row(m + 5u, n, a[5], b[5]);
  put_row(m + 6u, n, a[6], b[6]);
  put_row(m + 7u, n, a[7], b[7]);
}

fn put_row(m: u32, n: u32, left: vec4<T>, right: vec4<T>) {
  if (m >= p.M) { return; }
  put_channels(m, n, requantize(n, left));
  put_channels(m, n + 1u, requantize(n + 1u, right));
}
