//!use requantize
// Quantised convolution over height and width (1 x 1: matrix product) as a register-tiled product
// (lib/register_tile.wgsl) over window cells and input channels, in words of four channels.
//
// Words stay packed: a dot product of two is one instruction on most GPUs. On others (lavapipe) unpacking to vec4<i32>
// took the same time, and unpacking to vec4<f32> up to a fourth more.
// Expects x [batch, H, W, C], packed; w [KH * KW * GC / 4 (rounded up), 4 N4] words of four input channels, those past
// GC being the filter's zero point; bias [4 N4] with all that the input does not enter; the scales of
// lib/requantize.wgsl; products(w, x): the dot product of two words; p.KH, p.KW, p.C, p.N, p.N4 (even), p.GC and p.GN
// (input and output channels of a group; GN divisible by 8 where there are several), p.PAD (a word of the input's zero
// point); CENTRED: the filter's zero point is 0, sums of x are not needed; lib/word_column.wgsl or
// lib/word_columns.wgsl; lib/single_words.wgsl or lib/four_words.wgsl; lib/window_tile.wgsl, or lib/pixel_tile.wgsl for
// 1 x 1, and what it expects. An invocation computes ROWS output pixels, along [batch, OH, OW] flattened, x COLUMNS
// vec4 columns of output channels.

const ONES: i32 = 0x01010101;

fn depth_of(n: u32) -> Depth { return Depth(n * 4u / p.GN * p.GC, (p.GC + 4u * STEP - 1u) / (4u * STEP)); }
