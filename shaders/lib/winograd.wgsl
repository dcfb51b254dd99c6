//!use flat
// Winograd's convolution with 3 x 3 windows and stride 1 (gpunn/ops/contraction/winograd.py): the result is cut into
// tiles of EDGE x EDGE pixels. Expects EDGE; p.H, p.W, p.OH, p.OW, p.PT, p.PL (padding); p.ACROSS and p.DOWN, the tiles
// of an image; p.ROWS, the rows of the matrix of each cell, one for each tile, and maybe some more.

// A tile: its number, its image, and the first row and column of its result.
struct Tile { number: u32, image: u32, row: u32, column: u32 }

fn tile_number(number: u32) -> Tile {
  let line = number / p.ACROSS;
  let image = line / p.DOWN;
  return Tile(number, image, (line - image * p.DOWN) * EDGE, (number - line * p.ACROSS) * EDGE);
}
