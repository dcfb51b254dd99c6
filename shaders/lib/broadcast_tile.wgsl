//!use tiles
// The entry point for products whose rows a subgroup shares: an invocation keeps the sums of 16 rows x 4 channels (a
// vec4 column) in registers. All invocations of a subgroup have the same rows, and columns side by side. Of eight
// elements of a row each of them loads one, and subgroupBroadcast() hands it to the others. So a subgroup loads each
// element of both operands once. Rows are those of a matrix, or output pixels.
//
// Subgroups are consecutive invocations along x. p.BLOCK, the columns of a workgroup (lib/tiles.wgsl), is a multiple of
// their size, which is 8 or more. SPLITS is 1. Rows past the end are computed on the last row and not stored.
// Expects
//   w, blocks of 8 vec4 columns x p.DEPTH rows (a multiple of 8, zeros behind the depth); bias [4 N4], N4 a multiple of
//   8; p.M (rows), p.N4; p.STACK: after so many rows, a multiple of 16 or all, the next such matrix w begins;
//   Start, and start(m), where row m begins; next_start(s), where the row behind begins; Places, 16 places in rows
//   where add_depth() begins; Step, what the rows have in common in a step;
//   step_of(k), where this invocation loads element k of the depth; factor_at(place, step), the element, or 0 behind
//   the depth;
//   add_products(sums, starts, q, rank), which calls add_depth(); q: where the weights of the columns begin; rank:
//   which of the eight elements of a step this invocation loads;
//   put_channels() of lib/rows.wgsl or lib/rows_of_fours.wgsl.

const ROWS: u32 = 16u;
const STEP: u32 = 8u;

// All its indices are constants, so compilers can keep it in registers.
alias Sums = array<vec4<T>, ROWS>;

alias Starts = array<Start, ROWS>;

struct Weights {
  w0: vec4<T>,
  w1: vec4<T>,
  w2: vec4<T>,
  w3: vec4<T>,
  w4: vec4<T>,
  w5: vec4<T>,
  w6: vec4<T>,
  w7: vec4<T>,
}

@compute @workgroup_size(WX, WY, WZ)
fn main(at: Invocation) {
  let tile = tile_of(at);
  let m = tile.row * ROWS;
  let n = min(tile.column, p.N4 - 1u);
  let bias = load4_bias(n);
  var sums = Sums(
    bias, bias, bias, bias, bias, bias, bias, bias,
    bias, bias, bias, bias, bias, bias, bias, bias,
  );
  if (m < p.M) { add_products(&sums, starts(m), first_weight(m, n), at.local.x % STEP); }
  if (tile.column < p.N4) { put_tile(m, n, &sums); }
}

// Where the rows of a tile begin; past the end, the last row.
fn starts(m: u32) -> Starts {
  let s0 = start(m);
  let s1 = following(s0, m + 1u);
  let s2 = following(s1, m + 2u);
  let s3 = following(s2, m + 3u);
  let s4 = following(s3, m + 4u);
  let s5 = following(s4, m + 5u);
  let s6 = following(s5, m + 6u);
  let s7 = following(s6, m + 7u);
  let s8 = following(s7, m + 8u);
  let s9 = following(s8, m + 9u);
  let s10 = following(s9, m + 10u);
  let s11 = following(s10, m + 11u);
  let s12 = following(s11, m + 12u);
  let s13 = following(s12, m + 13u);
  let s14 = following(s13, m + 14u);
  let s15 = following(s14, m + 15u);
  return Starts(s0, s1, s2, s3, s4, s5, s6, s7, s8, s9, s10, s11, s12, s13, s14, s15);
}

// Where row m begins if there is one, else the row before it. Each step from row to row is cheap to compile and to
// compute, start() may divide.
fn following(before: Start, m: u32) -> Start {
  var at = before;
  if (m < p.M) { at = next_start(before); }
  return at;
}

// Where the weights for row m and column n begin.
fn first_weight(m: u32, n: u32) -> u32 { return (m / p.STACK * p.N4 / 8u + n / 8u) * p.DEPTH * 8u + n % 8u; }

fn weights_at(q: u32) -> Weights {
  return Weights(
    load4_w(q),
    load4_w(q + 8u),
    load4_w(q + 16u),
    load4_w(q + 24u),
    load4_w(q + 32u),
    load4_w(q + 40u),
    load4_w(q + 48u),
    load4_w(q + 56u),
  );
}

// Adds the products of the first `count` steps of a depth, whose weights begin at q.
fn add_depth(sums: ptr<function, Sums>, places: Places, count: u32, q: u32, rank: u32) {
  for (var k = 0u; k < count; k++) {
    let w = weights_at(q + k * STEP * 8u);
    let step = step_of(k * STEP + rank);
    (*sums)[0] = add_eight((*sums)[0], w, factor_at(places[0], step));
    (*sums)[1] = add_eight((*sums)[1], w, factor_at(places[1], step));
    (*sums)[2] = add_eight((*sums)[2], w, factor_at(places[2], step));
    (*sums)[3] = add_eight((*sums)[3], w, factor_at(places[3], step));
    (*sums)[4] = add_eight((*sums)[4], w, factor_at(places[4], step));
    (*sums)[5] = add_eight((*sums)[5], w, factor_at(places[5], step));
    (*sums)[6] = add_eight((*sums)[6], w, factor_at(places[6], step));
    (*sums)[7] = add_eight((*sums)[7], w, factor_at(places[7], step));
    (*sums)[8] = add_eight((*sums)[8], w, factor_at(places[8], step));
    (*sums)[9] = add_eight((*sums)[9], w, factor_at(places[9], step));
    (*sums)[10] = add_eight((*sums)[10], w, factor_at(places[10], step));
    (*sums)[11] = add_eight((*sums)[11], w, factor_at(places[11], step));
    (*sums)[12] = add_eight((*sums)[12], w, factor_at(places[12], step));
    (*sums)[13] = add_eight((*sums)[13], w, factor_at(places[13], step));
    (*sums)[14] = add_eight((*sums)[14], w, factor_at(places[14], step));
    (*sums)[15] = add_eight((*sums)[15], w, factor_at(places[15], step));
  }
}

// Adds the products with eight elements of a row; x: the one of them that this invocation has.
fn add_eight(sum: vec4<T>, w: Weights, x: T) -> vec4<T> {
  return sum
    + w.w0 * subgroupBroadcast(x, 0u)
    + w.w1 * subgroupBroadcast(x, 1u)
    + w.w2 * subgroupBroadcast(x, 2u)
    + w.w3 * subgroupBroadcast(x, 3u)
    + w.w4 * subgroupBroadcast(x, 4u)
    + w.w5 * subgroupBroadcast(x, 5u)
    + w.w6 * subgroupBroadcast(x, 6u)
    + w.w7 * subgroupBroadcast(x, 7u);
}

// Stores rows from m on, four at a time: compilers take long for each store that is written out.
fn put_tile(m: u32, n: u32, sums: ptr<function, Sums>) {
  for (var r = m; r < min(m + ROWS, p.M); r += 4u) {
    put_row(r, n, (*sums)[0]);
    put_row(r + 1u, n, (*sums)[1]);
    put_row(r + 2u, n, (*sums)[2]);
    put_row(r + 3u, n, (*sums)[3]);
    (*sums)[0] = (*sums)[4];
    (*sums)[1] = (*sums)[5];
    (*sums)[2] = (*sums)[6];
    (*sums)[3] = (*sums)[7];
    (*sums)[4] = (*sums)[8];
    (*sums)[5] = (*sums)[9];
    (*sums)[6] = (*sums)[10];
    (*sums)[7] = (*sums)[11];
    (*sums)[8] = (*sums)[12];
    (*sums)[9] = (*sums)[13];
    (*sums)[10] = (*sums)[14];
    (*sums)[11] = (*sums)[15];
  }
}

fn put_row(m: u32, n: u32, sum: vec4<T>) {
  if (m < p.M) { put_channels(m, n, sum); }
}
