//!use grid
// A grid of tiles, cut into workgroups of p.BLOCK columns x count / p.BLOCK rows, where count is the tiles of a
// workgroup. Expects p.BLOCK (a power of two up to count), p.BLOCKS (workgroups along the columns).

struct Tile { column: u32, row: u32 }

fn tile_among(at: Invocation, count: u32) -> Tile {
  let g = workgroup_number(at);
  let line = g / p.BLOCKS;
  let place = at.local.x % count;
  let inner = place / p.BLOCK;
  return Tile(
    (g - line * p.BLOCKS) * p.BLOCK + place - inner * p.BLOCK,
    line * (count / p.BLOCK) + inner,
  );
}
