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
//   hold_weights(v, loader, step), which make Helds; Weights, weights_at(place), those of a vec4 column for four
//   elements of the depth, and product(weights, held); multiply_add(sums, i, rows, weights, step), which adds the
//   products of a step that begin at these places; finish_loads(i, loader), called by all behind the last step;
//   total(cell, n, sum), the result of a cell, whose channels are n;
//   put_channels() of lib/rows.wgsl or lib/rows_of_fours.wgsl. WX is 256;
//   of gpunn/ops/kernels/workgroup_tile.py, what is written out for each load and each sum, so that all indices are
//   constants and compilers keep them in registers: Rows, rows_of(matrix, first, i); Fours, bring_step(rows, column, k,
//   i), hold_step(brought, loader, step, i); add_four(sums, rows, weights), the products of a vec4 of each row;
//   hand_sums(sums, to, stride), take_sums(sums, at, stride); put_sums(sums, first, place, begin, end), which calls
//   put_cell() for all sums.

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

var<workgroup> held_rows: array<Held, 2u * HELD>; // for each slice, of each row, four
var<workgroup> held_weights: array<Held, 2u * HELD>; // of each element of the depth, all vec4 columns

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
    let weights = weights_in(step) + slice * 16u * TILE_COLUMNS + place.column;
    multiply_add(&sums, i, rows_in(step) + place_of_four(place.row, 4u * slice), weights, step);
  }
  join_slices(&sums, i, slice);
  finish_loads(i, &loader);
  if (slice == 0u) { put_sums(&sums, first, place, result * p.M, (result + 1u) * p.M); }
}

// Where a step has its rows and its weights in the workgroup's memory.
fn rows_in(step: u32) -> u32 { return step % 2u * HELD; }

fn weights_in(step: u32) -> u32 { return step % 2u * HELD; }

// The place among rows for vec4 k of a row.
fn place_of_four(row: u32, k: u32) -> u32 { return (k / 4u * SIDE + row) * 4u + k % 4u; }

// Adds the products of a step.
fn add_step(sums: ptr<function, Sums>, rows: u32, weights: u32) {
  add_four(sums, rows, weights);
  add_four(sums, rows + 1u, weights + 4u * TILE_COLUMNS);
  add_four(sums, rows + 2u, weights + 8u * TILE_COLUMNS);
  add_four(sums, rows + 3u, weights + 12u * TILE_COLUMNS);
}

// Adds up the sums of all slices in the first one, by halves. All of a workgroup must call it.
fn join_slices(sums: ptr<function, Sums>, i: u32, slice: u32) {
  if (SLICES == 1u) { return; }
  for (var half = SLICES / 2u; half > 0u; half /= 2u) {
    workgroupBarrier();
    if (slice >= half && slice < 2u * half) { hand_sums(sums, i - half * OF_SLICE, half * OF_SLICE); }
    workgroupBarrier();
    if (slice < half) { take_sums(sums, i, half * OF_SLICE); }
  }
}

// By these a slice hands its sums to another one. Tiles in f16 have one slice.
fn hand_sum(place: u32, sum: vec4<T>) { held_rows[place] = Held(sum); }

fn handed_sum(place: u32) -> vec4<T> { return vec4<T>(held_rows[place]); }

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
