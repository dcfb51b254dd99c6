//!use real_tile real_sums window_tile
// Convolution over two or three dimensions as a register-tiled product (lib/register_tile.wgsl) over window cells and
// input channels, four channels in a step.
// Expects x [batch, cells, groups of 4 C], w [window cells, 4 C, 4 N4] and bias [4 N4] with output channels padded to
// N4, an even number; p.C, p.N; p.GN, the output channels of a group, or all; p.x_pitch and p.x_first, where pixels of
// x begin; lib/matrix_steps.wgsl or lib/matrix_column_steps.wgsl; what lib/register_tile.wgsl and lib/window_tile.wgsl
// expect. An invocation computes ROWS output pixels, along [batch, result cells] flattened, x COLUMNS vec4 columns of
// output channels.

fn depth_of(n: u32) -> Depth { return Depth(4u * n / p.GN * p.C, p.C); }

fn place_in(pixel: u32, first: u32) -> u32 { return pixel * p.x_pitch + p.x_first + first; }

fn factor_at(place: u32, c: u32) -> Factor {
  let inside = place != OUTSIDE;
  return select(Factor(), load4_x(select(0u, place + c, inside)), inside);
}
