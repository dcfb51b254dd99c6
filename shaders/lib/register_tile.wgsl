//!use tiles
// The entry point for register-tiled products: an invocation keeps the sums of ROWS rows x COLUMNS vec4 columns in
// registers and loads each weight once for all rows. Rows are those of a matrix, or output pixels.
//
// SPLITS invocations share a tile (lib/split_k.wgsl). Rows past the end are computed on the last row and not stored.
// Expects
//   bias [4 N4]; Row, the type of the sums of a row; begin_row(n, split), which has the bias; columns(row), what is
//   stored of it; rescaled(sum, by) and ending(n) of lib/real_sums.wgsl or lib/requantize.wgsl;
//   Weights, the type of the weights that a step of the depth takes for all columns; weights_at(q); STEP, the rows of w
//   in a step; factor_at(place, c), what step c of the depth multiplies with the weights; multiply_add(row, weights,
//   factor), a row with one more product;
//   add_products(sums, m, n, split), which calls add_depth() for rows from m on;
//   COLUMNS, Columns and their functions, of lib/one_column.wgsl or lib/two_columns.wgsl; put_channels() of
//   lib/rows.wgsl or lib/rows_of_fours.wgsl; p.M (rows), p.N4 (vec4 columns of w and the bias, a multiple of COLUMNS);
//   p.W4, how far apart the rows of w lie, in vec4s;
//   of gpunn/ops/kernels/register_tile.py, what is written out for each row, so that all its indices are constants and
//   compilers keep it in registers: sums_of(row), the same for all rows; add_step(sums, weights, places, c),
//   multiply_add() for all rows; results_of(sums), columns() of all rows; move_up(results), which moves them up by two;
//   HANDED, how many vec4s of a tile are handed over at a time; share_results(results, local, m, n), which hands over
//   all of them and calls put_handed() each time.

alias Sums = array<Row, ROWS>;
alias Results = array<Columns, ROWS>;
alias Places = array<u32, ROWS>;

var<workgroup> handed_tiles: array<array<vec4<T>, GIVERS>, HANDED>; // of all invocations

// The input channels that enter some output channels: so many steps, from channel or vec4 `first` on.
struct Depth { first: u32, steps: u32 }

@compute @workgroup_size(WX, WY, WZ)
fn main(at: Invocation) {
  let tile = tile_of(at);
  let n = tile.column * COLUMNS;
  let m = tile.row * ROWS;
  let split = split_of(at.local);
  var sums = sums_of(begin_row(n, split));
  if (n < p.N4 && m < p.M) { add_products(&sums, m, n, split); }
  put_tile(at.local, m, n, &sums);
}

// Adds the products of one split of a depth of so many steps. places: where the rows begin; q: where the weights begin.
fn add_depth(sums: ptr<function, Sums>, places: Places, steps: u32, q: u32, split: u32) {
  var next = q + split * STEP * p.W4;
  for (var c = split; c < steps; c += SPLITS) {
    let w = weights_at(next);
    next += SPLITS * STEP * p.W4;
    add_step(sums, w, places, c);
  }
}

// Stores rows from m on, joined from their splits, without those past the end. All of a workgroup must call it.
// Without splits rows are stored two at a time: compilers take long for each store that is written out.
fn put_tile(local: vec3<u32>, m: u32, n: u32, sums: ptr<function, Sums>) {
  var results = results_of(sums);
  if (SPLITS > 1u) {
    share_results(&results, local, m, n);
    return;
  }
  let by = endings(n);
  for (var r = m; r < min(m + ROWS, p.M); r += 2u) {
    put_row(r, n, results[0], by);
    put_row(r + 1u, n, results[1], by);
    move_up(&results);
  }
}

// Adds up what all splits have handed over of some vec4s of a tile, from `first` on, row by row, and stores that. Each
// split does so for one of SPLITS vec4s. All of a workgroup must call it.
fn put_handed(local: vec3<u32>, m: u32, n: u32, first: u32) {
  workgroupBarrier();
  let tile = local.x % TILES;
  for (var k = (split_of(local) - first) % SPLITS; k < HANDED; k += SPLITS) {
    var sum = handed_tiles[k][tile];
    for (var split = 1u; split < SPLITS; split++) { sum += handed_tiles[k][tile + split * TILES]; }
    let row = m + (first + k) / COLUMNS;
    let column = n + (first + k) % COLUMNS;
    if (row < p.M) { put_channels(row, column, rescaled(sum, ending(column))); }
  }
  workgroupBarrier();
}

fn put_row(m: u32, n: u32, row: Columns, by: Endings) {
  if (m < p.M) { put_columns(m, n, row, by); }
}
