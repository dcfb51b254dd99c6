//!use grid
// The entry point for products whose operands a workgroup shares: 256 invocations compute 64 rows x 64 channels, and
// each of them keeps 4 rows x 4 channels (a vec4 column) in registers. In a step, the workgroup brings 16 elements of
// the depth, for all its rows and channels, into its memory: each invocation loads a vec4 of a row and one of the
// weights, so each element of either is loaded once for 64 sums.
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
//   of lib/workgroup_reals.wgsl, lib/workgroup_packed_halves.wgsl or lib/workgroup_scaled_halves.wgsl: Held, what
//   workgroup memory holds of four elements; Scaling, and scaling_of(i, row, column), the scaling of what invocation i
//   brings; hold_row(v, scaling, step) and hold_weights(v, scaling, step), which make Helds;
//   multiply_add(sums, place, step), which adds the products of a step; total(cell, n, sum), the result of a cell,
//   whose channels are n;
//   put_channels() of lib/rows.wgsl or lib/rows_of_fours.wgsl. WX is 256.

const FOURS: u32 = 4u; // along the depth of a step

// Its indices are constants, so compilers can keep it in registers.
alias Sums = array<vec4<T>, 4>;

// Four rows of a tile, from 4 times `row` on, and the vec4 column.
struct Place { row: u32, column: u32 }

// A row of a tile, and a vec4 column.
struct Cell { row: u32, column: u32 }

var<workgroup> held_rows: array<Held, 256>; // of each row, FOURS
var<workgroup> held_weights: array<Held, 256>; // of each element of the depth, 16 vec4 columns

@compute @workgroup_size(WX, WY, WZ)
fn main(at: Invocation) {
  let tile = workgroup_number(at);
  let line = tile / p.ACROSS;
  let result = line / p.DOWN;
  // The grid may have more workgroups than there are tiles.
  if (result >= p.MATRICES * p.PARTS) { return; }
  let part = result / p.MATRICES;
  let matrix = result - part * p.MATRICES;
  let first = Place((line - result * p.DOWN) * 16u, (tile - line * p.ACROSS) * 16u);
  let i = at.local.x;
  let place = Place(i / 16u, i % 16u);
  let row = row_of(matrix * p.M + min(first.row * 4u + i / FOURS, p.M - 1u));
  let column = column_of(matrix, min(first.column + place.column, p.N4 - 1u));
  let scaling = scaling_of(i, row, column);
  var sums = Sums();
  let last = min((part + 1u) * p.PART, p.K4);
  for (var k = part * p.PART; k < last; k += FOURS) {
    let step = k / FOURS;
    held_rows[i] = hold_row(four_of(row, k + i % FOURS), scaling, step);
    held_weights[i] = hold_weights(weights_of(column, 4u * k + place.row), scaling, step);
    workgroupBarrier();
    multiply_add(&sums, place, step);
    workgroupBarrier();
  }
  let m = result * p.M + (first.row + place.row) * 4u;
  let end = (result + 1u) * p.M;
  let n = first.column + place.column;
  put_row(m, end, n, Cell(place.row * 4u, place.column), sums[0]);
  put_row(m + 1u, end, n, Cell(place.row * 4u + 1u, place.column), sums[1]);
  put_row(m + 2u, end, n, Cell(place.row * 4u + 2u, place.column), sums[2]);
  put_row(m + 3u, end, n, Cell(place.row * 4u + 3u, place.column), sums[3]);
}

fn put_row(m: u32, end: u32, n: u32, cell: Cell, sum: vec4<T>) {
  if (m < end && n < p.N4) { put_channels(m, n, total(cell, n, sum)); }
}

// Elements 4 k to 4 k + 3 of a row, zeros behind the depth.
fn four_of(row: Row, k: u32) -> vec4<T> {
  var x = vec4<T>();
  if (k < p.K4) { x = four_at(row, k); }
  return x;
}
