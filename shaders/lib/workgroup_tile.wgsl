//!use grid
// The entry point for products whose operands a workgroup shares: 256 invocations compute 64 rows x 64 channels, and
// each of them keeps 4 rows x 4 channels (a vec4 column) in registers. In a step, the workgroup brings 16 elements of
// the depth, for all its rows and channels, into its memory: each invocation loads a vec4 of a row and one of the
// weights, so each element of either is loaded once for 64 sums.
//
// Rows and columns past the end are computed on the last one and not stored.
// Expects
//   w [4 K4, 4 N4], zeros behind the depth; p.K4; p.M (rows), p.N4 (vec4 columns); p.ACROSS (workgroups side by side);
//   Row, and row_of(m), where row m begins; four_at(row, k), elements 4 k to 4 k + 3 of a row, zeros behind its end;
//   of lib/workgroup_reals.wgsl or lib/workgroup_halves.wgsl: Held, what workgroup memory holds of four elements;
//   hold(v, step), which makes it; multiply_add(sums, place, step), which adds the products of a step; total(n, sum);
//   put_channels() of lib/rows.wgsl or lib/rows_of_fours.wgsl. WX is 256.

const FOURS: u32 = 4u; // along the depth of a step

// Its indices are constants, so compilers can keep it in registers.
alias Sums = array<vec4<T>, 4>;

// Four rows of a tile, from 4 times `row` on, and the vec4 column.
struct Place { row: u32, column: u32 }

var<workgroup> held_rows: array<Held, 256>; // of each row, FOURS
var<workgroup> held_weights: array<Held, 256>; // of each element of the depth, 16 vec4 columns

@compute @workgroup_size(WX, WY, WZ)
fn main(at: Invocation) {
  let tile = workgroup_number(at);
  let line = tile / p.ACROSS;
  let first = Place(line * 16u, (tile - line * p.ACROSS) * 16u);
  let i = at.local.x;
  let place = Place(i / 16u, i % 16u);
  let row = row_of(min(first.row * 4u + i / FOURS, p.M - 1u));
  let column = min(first.column + place.column, p.N4 - 1u);
  var sums = Sums();
  for (var k = 0u; k < p.K4; k += FOURS) {
    let step = k / FOURS;
    var x = vec4<T>();
    if (k + i % FOURS < p.K4) { x = four_at(row, k + i % FOURS); }
    held_rows[i] = hold(x, step);
    var w = vec4<T>();
    if (4u * k + place.row < 4u * p.K4) { w = load4_w((4u * k + place.row) * p.N4 + column); }
    held_weights[i] = hold(w, step);
    workgroupBarrier();
    multiply_add(&sums, place, step);
    workgroupBarrier();
  }
  let m = (first.row + place.row) * 4u;
  put_row(m, first.column + place.column, sums[0]);
  put_row(m + 1u, first.column + place.column, sums[1]);
  put_row(m + 2u, first.column + place.column, sums[2]);
  put_row(m + 3u, first.column + place.column, sums[3]);
}

fn put_row(m: u32, n: u32, sum: vec4<T>) {
  if (m < p.M && n < p.N4) { put_channels(m, n, total(n, sum)); }
}
