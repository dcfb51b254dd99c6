//!use tiles
// The entry point for register-tiled products: an invocation keeps the sums of 8 rows x 8 channels (two vec4 columns)
// in registers and loads each weight once for all rows. Rows are those of a matrix, or output pixels.
//
// SPLITS invocations share a tile (lib/split_k.wgsl). Rows past the end are computed on the last row and not stored.
// Expects
//   bias [4 N4]; Row, the type of the sums of a row; begin_row(n, split), which has the bias; columns(row), the two
//   vec4s to store; Weights, the type of the weights that a step of the depth takes for both columns; weights_at(q);
//   STEP, the rows of w in a step; factor_at(place, first, c), what step c of the depth multiplies with the weights
//   (first: see Depth); multiply_add(row, weights, factor), a row with one more product;
//   add_products(sums, m, n, split), which calls add_depth() for rows from m on;
//   ending(n) and rescaled(sum, by) of lib/real_sums.wgsl or lib/requantize.wgsl; put_channels() of lib/rows.wgsl or
//   lib/rows_of_fours.wgsl; p.M (rows), p.N4 (vec4 columns of w and the bias, an even number).

// All its indices are constants, so compilers can keep it in registers.
alias Sums = array<Row, 8>;

// Two neighbouring vec4 columns.
struct Columns { left: vec4<T>, right: vec4<T> }

var<workgroup> handed_tiles: array<Columns, 8u * GIVERS>;

// The part of a row that enters some channels: `steps` steps, from element `first` on.
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

// The first value of the sums of channels n: the bias in the first split, else 0.
fn bias_of_split(n: u32, split: u32) -> Columns {
  let first = split == 0u;
  return Columns(select(vec4<T>(), load4_bias(n), first), select(vec4<T>(), load4_bias(n + 1u), first));
}

// Adds the products of one split of the depth. places: where the eight rows begin; q: where the weights begin.
fn add_depth(sums: ptr<function, Sums>, places: array<u32, 8>, depth: Depth, q: u32, split: u32) {
  var next = q + split * STEP * p.N4;
  for (var c = split; c < depth.steps; c += SPLITS) {
    let w = weights_at(next);
    next += SPLITS * STEP * p.N4;
    (*sums)[0] = multiply_add((*sums)[0], w, factor_at(places[0], depth.first, c));
    (*sums)[1] = multiply_add((*sums)[1], w, factor_at(places[1], depth.first, c));
    (*sums)[2] = multiply_add((*sums)[2], w, factor_at(places[2], depth.first, c));
    (*sums)[3] = multiply_add((*sums)[3], w, factor_at(places[3], depth.first, c));
    (*sums)[4] = multiply_add((*sums)[4], w, factor_at(places[4], depth.first, c));
    (*sums)[5] = multiply_add((*sums)[5], w, factor_at(places[5], depth.first, c));
    (*sums)[6] = multiply_add((*sums)[6], w, factor_at(places[6], depth.first, c));
    (*sums)[7] = multiply_add((*sums)[7], w, factor_at(places[7], depth.first, c));
  }
}

// Stores rows from m on, joined from their splits, without those past the end. All of a workgroup must call it. Rows
// are stored two at a time: compilers take long for each store that is written out.
fn put_tile(local: vec3<u32>, m: u32, n: u32, sums: ptr<function, Sums>) {
  var tile = array<Columns, 8>(
    columns((*sums)[0]),
    columns((*sums)[1]),
    columns((*sums)[2]),
    columns((*sums)[3]),
    columns((*sums)[4]),
    columns((*sums)[5]),
    columns((*sums)[6]),
    columns((*sums)[7]),
  );
  join_tile(local, &tile);
  if (split_of(local) > 0u) { return; }
  let left = ending(n);
  let right = ending(n + 1u);
  for (var r = m; r < min(m + 8u, p.M); r += 2u) {
    put_row(r, n, Columns(rescaled(tile[0].left, left), rescaled(tile[0].right, right)));
    put_row(r + 1u, n, Columns(rescaled(tile[1].left, left), rescaled(tile[1].right, right)));
    tile[0] = tile[2];
    tile[1] = tile[3];
    tile[2] = tile[4];
    tile[3] = tile[5];
    tile[4] = tile[6];
    tile[5] = tile[7];
  }
}

// What join() of lib/split_k.wgsl does, for a tile. All of a workgroup must call it.
fn join_tile(local: vec3<u32>, tile: ptr<function, array<Columns, 8>>) {
  if (SPLITS == 1u) { return; }
  let split = split_of(local);
  for (var half = SPLITS / 2u; half > 0u; half /= 2u) {
    workgroupBarrier();
    if (split >= half && split < 2u * half) {
      for (var k = 0u; k < 8u; k++) { handed_tiles[k * GIVERS + local.x - half * TILES] = (*tile)[k]; }
    }
    workgroupBarrier();
    if (split < half) {
      for (var k = 0u; k < 8u; k++) {
        let other = handed_tiles[k * GIVERS + local.x];
        (*tile)[k] = Columns((*tile)[k].left + other.left, (*tile)[k].right + other.right);
      }
    }
  }
}

fn put_row(m: u32, n: u32, row: Columns) {
  if (m >= p.M) { return; }
  put_channels(m, n, row.left);
  put_channels(m, n + 1u, row.right);
}
