//!use real_tile window_tile
// Convolution over two or three dimensions for any number of input channels (3 of a photo, say), as a register-tiled
// product (lib/register_tile.wgsl) over window cells and input channels, one channel in a step.
// Expects x [batch, cells, C], w [window cells, C, 4 N4] and bias [4 N4] with output channels padded to N4, an even
// number; p.C, p.N; p.x_pitch and p.x_first, where pixels of x begin; what lib/register_tile.wgsl and
// lib/window_tile.wgsl expect. An invocation computes 8 output pixels, along [batch, result cells] flattened, x 8
// output channels.

const STEP: u32 = 1u;

alias Weights = Columns;

fn depth_of(n: u32) -> Depth { return Depth(0u, p.C); }

fn weights_at(q: u32) -> Weights { return Weights(load4_w(q), load4_w(q + 1u)); }

fn factor_at(pixel: u32, first: u32, c: u32) -> T {
  let inside = pixel != OUTSIDE;
  return select(T(), load_x(select(0u, pixel * p.x_pitch + p.x_first + c, inside)), inside);
}

fn multiply_add(row: Row, w: Weights, x: T) -> Row { return Row(row.left + w.left * x, row.right + w.right * x); }
