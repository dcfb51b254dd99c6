//!use workgroup_tile
// Products of a tile that a workgroup shares (lib/workgroup_tile.wgsl) of integers, whose elements are words of four
// along the depth: what lib/workgroup_reals.wgsl has for reals.
//
// With the filter's zero point, sums of the inputs of each row are needed, too. Each invocation adds up what it brings
// of its rows, and leaves that in the workgroup's memory behind the last step.
// Expects products(w, x): the dot product of two words; CENTRED: the filter's zero point is 0, sums of inputs are not
// needed; p.zeros, as lib/zero_points.wgsl; bias [4 N4] with all that the input does not enter; requantize() and what
// lib/requantize.wgsl expects.

const ONES: i32 = 0x01010101;
const LOADS = HELD / WX; // of rows by an invocation: 1 or 2

alias Held = vec4<i32>;

// The sums of the inputs of each load.
alias Loader = vec2<i32>;

// For each word of the depth, those of four channels.
struct Weights { first: vec4<i32>, second: vec4<i32>, third: vec4<i32>, fourth: vec4<i32> }

fn loader_of(i: u32, row: Row, column: Column) -> Loader { return Loader(); }

fn hold_row(v: vec4<i32>, load: u32, loader: ptr<function, Loader>, step: u32) -> Held {
  if (CENTRED == 0u) {
    let inputs = products4(vec4<i32>(ONES), v);
    (*loader)[load] += inputs.x + inputs.y + inputs.z + inputs.w;
  }
  return v;
}

fn hold_weights(v: vec4<i32>, loader: ptr<function, Loader>, step: u32) -> Held { return v; }

fn weights_at(at: At, k: u32, column: u32) -> Weights {
  return Weights(
    held_weights[at.part][k][column][at.column],
    held_weights[at.part][k + 1u][column][at.column],
    held_weights[at.part][k + 2u][column][at.column],
    held_weights[at.part][k + 3u][column][at.column],
  );
}

// One by one: an instruction adds a dot product to a sum.
fn with_products(sum: vec4<i32>, w: Weights, held: Held) -> vec4<i32> {
  let half = sum + products4(w.first, vec4<i32>(held.x)) + products4(w.second, vec4<i32>(held.y));
  return half + products4(w.third, vec4<i32>(held.z)) + products4(w.fourth, vec4<i32>(held.w));
}

fn multiply_add(sums: ptr<function, Sums>, i: u32, at: At, step: u32) { add_step(sums, at); }

fn finish_loads(i: u32, loader: ptr<function, Loader>) {
  if (CENTRED == 1u) { return; }
  workgroupBarrier();
  keep_weights(0u, i / TILE_COLUMNS, i % TILE_COLUMNS, vec4<i32>(*loader, 0, 0));
  workgroupBarrier();
}

// The sum of the inputs of a row of the tile: FOURS invocations have brought it.
fn inputs_of(row: u32) -> i32 {
  let first = row % (SIDE / LOADS) * FOURS;
  var sum = 0;
  for (var k = 0u; k < FOURS; k++) { sum += inputs_brought(first + k)[row / (SIDE / LOADS)]; }
  return sum;
}

// What invocation i has left of its sums.
fn inputs_brought(i: u32) -> vec4<i32> {
  let k = i / TILE_COLUMNS;
  return held_weights[k / 16u][k % 16u][i % TILE_COLUMNS / COLUMNS_APART][i % COLUMNS_APART];
}

// The sums of channels n as stored integers.
fn total(cell: Cell, n: u32, sum: vec4<i32>) -> vec4<i32> {
  var whole = sum + load4_bias(n);
  if (CENTRED == 0u) { whole -= vec4<i32>(p.zeros.y * inputs_of(cell.row)); }
  return requantize(n, whole);
}
