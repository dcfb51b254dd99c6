//!use single_steps window_tile
// Convolution over two or three dimensions for any number of input channels (3 of a photo, say), as a register-tiled
// product (lib/register_tile.wgsl) over window cells and input channels, one channel in a step.
// Expects x [batch, cells, groups of C], w [window cells, C, 4 N4] and bias [4 N4] with output channels padded to N4,
// an even number; p.C, p.N; p.GN, the output channels of a group, or all; p.absent, which stands for padding: 0, or the
// bits of an integer; p.x_pitch and p.x_first, where pixels of x begin; lib/one_column.wgsl or lib/two_columns.wgsl;
// lib/real_sums.wgsl or lib/requantize.wgsl; what lib/register_tile.wgsl and lib/window_tile.wgsl expect. An invocation
// computes ROWS output pixels, along [batch, result cells] flattened, x COLUMNS vec4 columns of output channels.

fn depth_of(n: u32) -> Depth { return Depth(4u * n / p.GN * p.C, p.C); }

fn place_in(pixel: u32, first: u32) -> u32 { return pixel * p.x_pitch + p.x_first + first; }

fn factor_at(place: u32, c: u32) -> Factor {
  let inside = place != OUTSIDE;
  return select(Factor(p.absent), load_x(select(0u, place + c, inside)), inside);
}
