//!use two_columns requantize
// Quantised convolution over height and width (1 x 1: matrix product) as a register-tiled product
// (lib/register_tile.wgsl) over window cells and input channels, in words of four channels.
//
// Words stay packed: a dot product of two is one instruction on most GPUs. On others (lavapipe) unpacking to vec4<i32>
// took the same time, and unpacking to vec4<f32> up to a fourth more.
// Expects x [batch, H, W, C], packed; w [KH * KW * GC / 4 (rounded up), 4 N4] words of four input channels, those past
// GC being the filter's zero point; bias [4 N4] with all that the input does not enter; the scales of
// lib/requantize.wgsl; products(w, x): the dot product of two words; p.KH, p.KW, p.C, p.N, p.N4 (even), p.GC and p.GN
// (input and output channels of a group; GN divisible by 8 where there are several), p.PAD (a word of the input's zero
// point); CENTRED: the filter's zero point is 0, sums of x are not needed; lib/single_words.wgsl or
// lib/four_words.wgsl; lib/window_tile.wgsl, or lib/pixel_tile.wgsl for 1 x 1, and what it expects. An invocation
// computes 8 output pixels, along [batch, OH, OW] flattened, x 8 output channels.

const ONES: i32 = 0x01010101;

// The sums of a row: those of products with the stored filter, and that of the inputs, for the filter's zero point.
struct Row { left: vec4<i32>, right: vec4<i32>, inputs: i32 }

fn depth_of(n: u32) -> Depth { return Depth(n * 4u / p.GN * p.GC, (p.GC + 4u * STEP - 1u) / (4u * STEP)); }

fn begin_row(n: u32, split: u32) -> Row {
  let bias = bias_of_split(n, split);
  return Row(bias.left, bias.right, 0);
}

// The sums of a row with a word of the depth.
fn with_word(row: Row, w: Columns, x: i32) -> Row {
  var inputs = row.inputs;
  if (CENTRED == 0u) { inputs += products(ONES, x); }
  let factor = vec4<i32>(x);
  return Row(row.left + products4(w.left, factor), row.right + products4(w.right, factor), inputs);
}

fn columns(row: Row) -> Columns {
  let zeros = p.zeros.y * row.inputs;
  return Columns(row.left - zeros, row.right - zeros);
}
