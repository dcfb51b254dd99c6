//!use tiles
// What tiles have in common whose rows a subgroup shares (lib/broadcast_tile.wgsl, lib/broadcast_tile_4.wgsl,
// lib/broadcast_wide_tile.wgsl): which rows these are, where rows and weights begin, how steps are multiplied, and how
// rows are stored. Expects ROWS, those of a tile, Sums, Total, Factor, Start, start(), next_start(), weight_at(), p.M,
// p.DOWN, p.N, p.N4, p.DEPTH, put_channels(),
// plus_product(sum, w, x), a sum with the products of four weights and one factor.

const STEP: u32 = 4u;

// The rows of a tile, from m on, of those of a matrix, which end with `end`; its column, in invocations.
struct TileRows { matrix: u32, m: u32, end: u32, column: u32 }

fn tile_rows(at: Invocation) -> TileRows {
  let tile = tile_of(at);
  let matrix = tile.row / p.DOWN;
  let m = matrix * p.M + (tile.row - matrix * p.DOWN) * ROWS;
  return TileRows(matrix, m, (matrix + 1u) * p.M, tile.column);
}

// The first of an invocation's two columns, where a subgroup of so many invocations has the first ones side by side,
// and then the second ones.
fn first_of_two(column: u32, subgroup: u32) -> u32 { return column / subgroup * 2u * subgroup + column % subgroup; }

// Where the two rows begin of which an invocation loads elements.
alias Starts = array<Start, 2>;

struct Weights { w0: vec4<Factor>, w1: vec4<Factor>, w2: vec4<Factor>, w3: vec4<Factor> }

// The elements of a row in a step.
alias Factors = vec4<Factor>;

// Where row m and the one behind it begin; past the end, the last row. start() may divide, next_start() is
// cheap to compile and to compute.
fn starts(m: u32, end: u32) -> Starts {
  let s0 = start(min(m, end - 1u));
  var s1 = s0;
  if (m + 1u < end) { s1 = next_start(s0); }
  return Starts(s0, s1);
}

fn weights_at(q: u32) -> Weights {
  return Weights(weight_at(q), weight_at(q + 8u), weight_at(q + 16u), weight_at(q + 24u));
}

// A sum with the products with the factors of a row.
fn plus_step(sum: vec4<Factor>, w: Weights, x: Factors) -> vec4<Factor> {
  return plus_product(plus_product(plus_product(plus_product(sum, w.w0, x.x), w.w1, x.y), w.w2, x.z), w.w3, x.w);
}

// Where the weights of a matrix for column n begin. Loops count steps by the same p.DEPTH: with Mesa 25, runs took 1.2
// times as long with a parameter that nothing before the loop needs.
fn first_weight(matrix: u32, n: u32) -> u32 {
  let rows = (p.DEPTH + 4u) / 8u * 8u;
  return (matrix * p.N4 / 8u + n / 8u) * rows * 8u + n % 8u;
}

fn put_row(m: u32, end: u32, n: u32, v: vec4<T>) {
  if (m < end) { put_channels(m, n, v); }
}

// Moves each sum to the place before it, and puts another one behind the last.
fn append_sum(sums: ptr<function, Sums>, v: Total) {
  (*sums)[0] = (*sums)[1];
  (*sums)[1] = (*sums)[2];
  (*sums)[2] = (*sums)[3];
  (*sums)[3] = (*sums)[4];
  (*sums)[4] = (*sums)[5];
  (*sums)[5] = (*sums)[6];
  (*sums)[6] = (*sums)[7];
  (*sums)[7] = (*sums)[8];
  (*sums)[8] = (*sums)[9];
  (*sums)[9] = (*sums)[10];
  (*sums)[10] = (*sums)[11];
  (*sums)[11] = (*sums)[12];
  (*sums)[12] = (*sums)[13];
  (*sums)[13] = (*sums)[14];
  (*sums)[14] = (*sums)[15];
  (*sums)[15] = v;
}

// Moves the next four sums to where those are that have been stored.
fn advance(sums: ptr<function, Sums>) {
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
