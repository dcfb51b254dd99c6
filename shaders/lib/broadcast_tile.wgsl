//!use broadcast_rows
// The entry point for products whose rows a subgroup shares: an invocation keeps the sums of 16 rows x 4 channels (a
// vec4 column) in registers. All invocations of a subgroup have the same rows, and columns side by side. A step is
// eight elements of the depth. Of four rows, each of eight invocations loads four elements, half a row's step, and
// subgroupBroadcast() hands them to the others. So a subgroup loads each element of both operands once. Rows are those
// of a matrix, or output pixels.
//
// Subgroups are consecutive invocations along x, at least 8. A workgroup is one subgroup, or several side by side:
// p.BLOCK, its columns (lib/tiles.wgsl), is WX. SPLITS is 1. So each workgroup has rows to compute, and no branch
// around the sums: lavapipe would mask each of their assignments. Rows past the end are computed on the last row and
// not stored.
// Expects
//   w, blocks of 8 vec4 columns x p.DEPTH rows (a multiple of 8, zeros behind the depth); bias [4 N4], N4 a multiple of
//   8; p.M (rows), p.N4; p.DOWN (tiles of so many rows): rows of tiles behind that are those of the next p.M rows, with
//   the next such matrix w;
//   Start, and start(m), where row m begins; next_start(s), where the row behind begins; Places, 4 places in rows
//   where add_depth() begins; Step, what the rows have in common in a step;
//   step_of(k), where this invocation loads elements from k on, a multiple of 4; factors_at(place, step), the factors
//   of these four elements, with 0 behind the depth;
//   add_products(sums, starts, q, first), which calls add_depth(); q: where the weights of the columns begin; first:
//   the first of the elements of a step that this invocation loads;
//   of lib/broadcast_reals.wgsl or one of its kind: Total, the type of sums; Factor, that of an element of a factor, as
//   it is multiplied; begin(n), which has the bias; factor_of(x), factors_of(x), the factors of one element and of
//   four; weight_at(q); add_step(sum, w, x), which adds the products with the factors of a row; finished(m, end, n,
//   sums), which computes what is behind the product where the library does so; stored(sum, by), what is stored of a
//   sum, with by = finished(...);
//   put_channels() of lib/rows.wgsl or lib/rows_of_fours.wgsl.
// lib/broadcast_tile_4.wgsl has the same for subgroups of four.

const ROWS: u32 = 16u;
const STEP: u32 = 8u;

// All its indices are constants, so compilers can keep it in registers.
alias Sums = array<Total, ROWS>;

// Where the rows begin of which an invocation loads elements: one of each four.
alias Starts = array<Start, 4>;

struct Weights {
  w0: vec4<Factor>,
  w1: vec4<Factor>,
  w2: vec4<Factor>,
  w3: vec4<Factor>,
  w4: vec4<Factor>,
  w5: vec4<Factor>,
  w6: vec4<Factor>,
  w7: vec4<Factor>,
}

// The elements of a row in a step.
struct Factors { low: vec4<Factor>, high: vec4<Factor> }

@compute @workgroup_size(WX, WY, WZ)
fn main(at: Invocation) {
  let tile = tile_of(at);
  let matrix = tile.row / p.DOWN;
  let m = matrix * p.M + (tile.row - matrix * p.DOWN) * ROWS;
  let end = (matrix + 1u) * p.M;
  let n = min(tile.column, p.N4 - 1u);
  let rank = at.local.x % STEP;
  let first = begin(n);
  var sums = Sums(
    first, first, first, first, first, first, first, first,
    first, first, first, first, first, first, first, first,
  );
  add_products(&sums, starts(m + rank / 2u, end), first_weight(matrix, n), rank % 2u * 4u);
  if (tile.column < p.N4) { put_tile(m, end, n, &sums); }
}

// Where row m and every fourth one behind it begin; past the end, the last row.
fn starts(m: u32, end: u32) -> Starts {
  let s0 = start(min(m, end - 1u));
  let s1 = fourth(s0, m, end);
  let s2 = fourth(s1, m + 4u, end);
  let s3 = fourth(s2, m + 8u, end);
  return Starts(s0, s1, s2, s3);
}

fn weights_at(q: u32) -> Weights {
  return Weights(
    weight_at(q),
    weight_at(q + 8u),
    weight_at(q + 16u),
    weight_at(q + 24u),
    weight_at(q + 32u),
    weight_at(q + 40u),
    weight_at(q + 48u),
    weight_at(q + 56u),
  );
}

// Adds the products of the first `count` steps of a depth, whose weights begin at q. The factors are loaded first:
// compilers of CPUs put elements into a vector one by one, which takes long once the registers are full of weights.
fn add_depth(sums: ptr<function, Sums>, places: Places, count: u32, q: u32, first: u32) {
  for (var k = 0u; k < count; k++) {
    let step = step_of(k * STEP + first);
    let x0 = factors_at(places[0], step);
    let x1 = factors_at(places[1], step);
    let x2 = factors_at(places[2], step);
    let x3 = factors_at(places[3], step);
    let w = weights_at(q + k * STEP * 8u);
    (*sums)[0] = add_step((*sums)[0], w, first_of(x0));
    (*sums)[1] = add_step((*sums)[1], w, second_of(x0));
    (*sums)[2] = add_step((*sums)[2], w, third_of(x0));
    (*sums)[3] = add_step((*sums)[3], w, fourth_of(x0));
    (*sums)[4] = add_step((*sums)[4], w, first_of(x1));
    (*sums)[5] = add_step((*sums)[5], w, second_of(x1));
    (*sums)[6] = add_step((*sums)[6], w, third_of(x1));
    (*sums)[7] = add_step((*sums)[7], w, fourth_of(x1));
    (*sums)[8] = add_step((*sums)[8], w, first_of(x2));
    (*sums)[9] = add_step((*sums)[9], w, second_of(x2));
    (*sums)[10] = add_step((*sums)[10], w, third_of(x2));
    (*sums)[11] = add_step((*sums)[11], w, fourth_of(x2));
    (*sums)[12] = add_step((*sums)[12], w, first_of(x3));
    (*sums)[13] = add_step((*sums)[13], w, second_of(x3));
    (*sums)[14] = add_step((*sums)[14], w, third_of(x3));
    (*sums)[15] = add_step((*sums)[15], w, fourth_of(x3));
  }
}

// The factors of the first, second, third and fourth of four rows; x: those that this invocation has loaded.
fn first_of(x: vec4<Factor>) -> Factors { return Factors(subgroupBroadcast(x, 0u), subgroupBroadcast(x, 1u)); }
fn second_of(x: vec4<Factor>) -> Factors { return Factors(subgroupBroadcast(x, 2u), subgroupBroadcast(x, 3u)); }
fn third_of(x: vec4<Factor>) -> Factors { return Factors(subgroupBroadcast(x, 4u), subgroupBroadcast(x, 5u)); }
fn fourth_of(x: vec4<Factor>) -> Factors { return Factors(subgroupBroadcast(x, 6u), subgroupBroadcast(x, 7u)); }

// A sum with the products with the factors of a row.
fn plus_step(sum: vec4<Factor>, w: Weights, x: Factors) -> vec4<Factor> {
  return sum
    + w.w0 * x.low.x
    + w.w1 * x.low.y
    + w.w2 * x.low.z
    + w.w3 * x.low.w
    + w.w4 * x.high.x
    + w.w5 * x.high.y
    + w.w6 * x.high.z
    + w.w7 * x.high.w;
}

// Stores rows from m on, four at a time: compilers take long for each store that is written out.
fn put_tile(m: u32, end: u32, n: u32, sums: ptr<function, Sums>) {
  let by = finished(m, end, n, sums);
  for (var r = m; r < min(m + ROWS, end); r += 4u) {
    put_row(r, end, n, stored((*sums)[0], by));
    put_row(r + 1u, end, n, stored((*sums)[1], by));
    put_row(r + 2u, end, n, stored((*sums)[2], by));
    put_row(r + 3u, end, n, stored((*sums)[3], by));
    advance(sums);
  }
}
