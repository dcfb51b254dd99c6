//!use workgroup_tile requantize
// Products of a tile that a workgroup shares (lib/workgroup_tile.wgsl) of two quantised tensors of 8 bits, to the bit,
// where neither is packed: what lib/workgroup_words.wgsl has for packed words of a filter.
//
// Elements without their zero points are up to 255, so sums of four products are up to 260100, and exact in f32, as in
// lib/broadcast_integers.wgsl. With 1.5 * 2^23 added, such a sum n has the bits of that number plus n, so it needs no
// conversion to an integer. p.excess is what all these steps add too much; 0 stands behind the depth in both operands,
// and the product of their zero points there is in it, too.
// Expects p.zeros, as lib/zero_points.wgsl; p.excess; requantize() and what lib/requantize.wgsl expects.

const SHIFTED: f32 = 12582912.0; // 1.5 * 2^23

alias Held = vec4<i32>; // the bits of f32s: slices hand sums, which are integers, through the same memory

alias Loader = bool;

// For each of four elements of the depth, those of four channels.
alias Weights = mat4x4<f32>;

fn loader_of(i: u32, row: Row, column: Column) -> Loader { return false; }

fn hold_row(v: vec4<i32>, load: u32, loader: ptr<function, Loader>, step: u32) -> Held {
  return bitcast<vec4<i32>>(vec4<f32>(enter(v)));
}

fn hold_weights(v: vec4<i32>, loader: ptr<function, Loader>, step: u32) -> Held {
  return bitcast<vec4<i32>>(vec4<f32>(weigh(v)));
}

fn weights_at(at: At, k: u32, column: u32) -> Weights {
  return Weights(
    bitcast<vec4<f32>>(held_weights[at.part][k][column][at.column]),
    bitcast<vec4<f32>>(held_weights[at.part][k + 1u][column][at.column]),
    bitcast<vec4<f32>>(held_weights[at.part][k + 2u][column][at.column]),
    bitcast<vec4<f32>>(held_weights[at.part][k + 3u][column][at.column]),
  );
}

fn with_products(sum: vec4<i32>, w: Weights, held: Held) -> vec4<i32> {
  let x = bitcast<vec4<f32>>(held);
  return sum + bitcast<vec4<i32>>(vec4<f32>(SHIFTED) + w[0] * x.x + w[1] * x.y + w[2] * x.z + w[3] * x.w);
}

fn multiply_add(sums: ptr<function, Sums>, i: u32, at: At, step: u32) { add_step(sums, at); }

fn finish_loads(i: u32, loader: ptr<function, Loader>) {}

// The sums of channels n as stored integers.
fn total(cell: Cell, n: u32, sum: vec4<i32>) -> vec4<i32> { return requantize(n, sum - vec4<i32>(i32(p.excess))); }
