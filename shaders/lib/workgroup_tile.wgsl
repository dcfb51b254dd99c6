//!use grid
// The entry point for products whose operands a workgroup shares: 256 invocations compute SIDE rows x SIDE channels.
// Each of them keeps ROWS rows x COLUMNS vec4 columns in registers, which lie evenly apart in the tile. In a step, the
// workgroup brings 16 elements of the depth for each of its SLICES into its memory, for all its rows and channels: each
// element of either operand is loaded once for SIDE sums. An invocation loads what the next step needs before it
// multiplies, and one half of the memory is filled while others still multiply what is in the other one.
//
// Rows and columns past the end are computed on the last one and not stored.
// Expects
//   p.MATRICES, p.M: so many matrices of weights, each with so many rows, one behind the other; p.DOWN, the tiles of
//   these rows; p.K4 (fours of the depth); p.N4 (vec4 columns); p.ACROSS (workgroups side by side); p.PARTS, the parts
//   of the depth, whose sums are results one behind the other; p.PART (fours of a part, a multiple of FOURS if there
//   are several);
//   Row, and row_of(m), where row m begins; four_at(row, k), elements 4 k to 4 k + 3 of a row, zeros behind its end;
//   of lib/packed_columns.wgsl or lib/stack_columns.wgsl: column_of(matrix, n), where vec4 column n begins, and
//   weights_of(column, k), its weights for element k of a row, zeros behind the depth;
//   of lib/workgroup_reals.wgsl, lib/workgroup_packed_halves.wgsl, lib/workgroup_scaled_halves.wgsl or
//   lib/workgroup_words.wgsl: Held, what workgroup memory holds of four elements; Loader, what an invocation knows of
//   what it brings, and loader_of(i, row, column), that of invocation i; hold_row(v, load, loader, step) and
//   hold_weights(v, loader, step), which make Helds; Weights, weights_at(at, k, column), those of a vec4 column for
//   four elements of the depth, and with_products(sum, weights, held), a sum with theirs; multiply_add(sums, i, at,
//   step), which adds the products of a step; finish_loads(i, loader), called by all behind the last step;
//   total(cell, n, sum), the result of a cell, whose channels are n;
//   put_channels() of lib/rows.wgsl or lib/rows_of_fours.wgsl. WX is 256;
//   of gpunn/ops/kernels/workgroup_tile.py, what is written out for each load and each sum, so that all indices are
//   constants and compilers keep them in registers: Rows, rows_of(matrix, first, i); Fours, bring_step(rows, column, k,
//   i), hold_step(brought, loader, step, i); add_four(sums, at, four), the products of a vec4 of each row;
//   hand_sums(sums, to), take_sums(sums, at); put_sums(sums, first, place, begin, end), which calls put_cell() for all
//   sums.

const FOURS = 4u * SLICES; // along the depth of a step
const TILE_COLUMNS = SIDE / 4u;
const ROWS_APART = SIDE / ROWS; // the distance between two rows of an invocation
const COLUMNS_APART = TILE_COLUMNS / COLUMNS;
const OF_SLICE = ROWS_APART * COLUMNS_APART; // invocations
const HELD = SIDE * FOURS; // vec4s that a step holds of either operand

alias Sums = array<vec4<T>, ROWS * COLUMNS>;

// The first tile row and vec4 column, or those of an invocation in the tile.
struct Place { row: u32, column: u32 }

// A row of a tile, and a vec4 column.
struct Cell { row: u32, column: u32 }

// What an invocation brings of a step.
struct Brought { rows: Fours, weights: Fours }

// What an invocation multiplies in a step: which part of the workgroup's memory, and where it is in rows and columns.
struct At { part: u32, row: u32, column: u32 }

// The workgroup's memory has two parts for each slice. An index of a loop that is known, and one of an invocation, are
// dimensions of their own: so a compiler knows how far apart loads are, and one address serves for all of them.
alias HeldRow = array<Held, 4>;
alias HeldRows = array<array<HeldRow, ROWS_APART>, ROWS>; // of each row, four
alias HeldWeights = array<array<array<Held, COLUMNS_APART>, COLUMNS>, 16>; // of each element of the depth, all columns
var<workgroup> held_rows: array<HeldRows, 2u * SLICES>;
var<workgroup> held_weights: array<HeldWeights, 2u * SLICES>;

@compute @workgroup_size(WX, WY, WZ)
fn main(at: Invocation) {
  let tile = workgroup_number(at);
  let line = tile / p.ACROSS;
  let result = line / p.DOWN;
  // The grid may have more workgroups than there are tiles.
  if (result >= p.MATRICES * p.PARTS) { return; }
  let part = result / p.MATRICES;
  let matrix = result - part * p.MATRICES;
  let first = Place((line - result * p.DOWN) * SIDE, (tile - line * p.ACROSS) * TILE_COLUMNS);
  let i = at.local.x;
  let slice = i / OF_SLICE;
  let place = Place(i % OF_SLICE / COLUMNS_APART, i % COLUMNS_APART);
  let rows = rows_of(matrix, first.row, i);
  let column = column_of(matrix, min(first.column + i % TILE_COLUMNS, p.N4 - 1u));
  var loader = loader_of(i, rows[0], column);
  var sums = Sums();
  let last = min((part + 1u) * p.PART, p.K4);
  var brought = bring_step(rows, column, part * p.PART, i);
  for (var k = part * p.PART; k < last; k += FOURS) {
    let step = k / FOURS;
    hold_step(brought, &loader, step, i);
    workgroupBarrier();
    if (k + FOURS < last) { brought = bring_step(rows, column, k + FOURS, i); }
    multiply_add(&sums, i, At(part_of(step, slice), place.row, place.column), step);
  }
  join_slices(&sums, i, slice);
  finish_loads(i, &loader);
  if (slice == 0u) { put_sums(&sums, first, place, result * p.M, (result + 1u) * p.M); }
}

// Where a step has what a slice multiplies.
fn part_of(step: u32, slice: u32) -> u32 { return step % 2u * SLICES + slice; }

// Keeps vec4 `four` of a row, or the weights of a column for element k of the depth.
fn keep_row(step: u32, row: u32, four: u32, held: Held) {
  held_rows[part_of(step, four / 4u)][row / ROWS_APART][row % ROWS_APART][four % 4u] = held;
}

fn keep_weights(step: u32, k: u32, column: u32, held: Held) {
  held_weights[part_of(step, k / 16u)][k % 16u][column / COLUMNS_APART][column % COLUMNS_APART] = held;
}

// Adds the products of a step.
fn add_step(sums: ptr<function, Sums>, at: At) {
  add_four(sums, at, 0u);
  add_four(sums, at, 1u);
  add_four(sums, at, 2u);
  add_four(sums, at, 3u);
}

// Adds up the sums of all slices in the first one, by halves. All of a workgroup must call it.
fn join_slices(sums: ptr<function, Sums>, i: u32, slice: u32) {
  if (SLICES == 1u) { return; }
  for (var half = SLICES / 2u; half > 0u; half /= 2u) {
    workgroupBarrier();
    if (slice >= half && slice < 2u * half) { hand_sums(sums, i - half * OF_SLICE); }
    workgroupBarrier();
    if (slice < half) { take_sums(sums, i); }
  }
}

// By these a slice hands sum k of each invocation to another one. There are up to ROWS sums then, and Held is vec4<T>:
// tiles in f16 have one slice.
fn hand_sum(to: u32, k: u32, sum: vec4<T>) {
  held_rows[to / (4u * ROWS_APART)][k][to / 4u % ROWS_APART][to % 4u] = Held(sum);
}

fn handed_sum(at: u32, k: u32) -> vec4<T> {
  return vec4<T>(held_rows[at / (4u * ROWS_APART)][k][at / 4u % ROWS_APART][at % 4u]);
}

// Where row m of a matrix begins, or its last one.
fn row_at(matrix: u32, m: u32) -> Row { return row_of(matrix * p.M + min(m, p.M - 1u)); }

// Elements 4 k to 4 k + 3 of a row, zeros behind the depth.
fn four_of(row: Row, k: u32) -> vec4<T> {
  var x = vec4<T>();
  if (k < p.K4) { x = four_at(row, k); }
  return x;
}

// Stores a cell of the tile that begins with `first`. The rows of its result are those from `begin` to `end`.
fn put_cell(first: Place, cell: Cell, begin: u32, end: u32, sum: vec4<T>) {
  let m = begin + first.row + cell.row;
  let n = first.column + cell.column;
  if (m < end && n < p.N4) { put_channels(m, n, total(cell, n, sum)); }
}
