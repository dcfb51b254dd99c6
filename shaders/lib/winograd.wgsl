//!use flat
// Winograd's convolution with 3 x 3 windows and stride 1 (gpunn/ops/contraction/winograd.py): the result is cut into
// tiles of EDGE x EDGE pixels; what a tile sees, and its products, are EDGE + 2 rows and columns.
// Expects EDGE; p.ACROSS and p.DOWN, the tiles of an image; p.ROWS, the rows of the matrix of each cell, one for each
// tile, and maybe some more; transform(at), which kernels bring: it transforms the rows and columns of a tile by
// transformed() of lib/winograd_input_2.wgsl or one of its kind, from the body's taken(at, row, column) to its
// put_at(at, row, column, v). rows(at) tells how many rows there are to put; p.REACH is EDGE + 2.

// A tile: its image, and the first row and column of its result.
struct Tile { image: u32, row: u32, column: u32 }

fn tile_number(number: u32) -> Tile {
  let line = number / p.ACROSS;
  let image = line / p.DOWN;
  return Tile(image, (line - image * p.DOWN) * EDGE, (number - line * p.ACROSS) * EDGE);
}
