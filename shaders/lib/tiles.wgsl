//!use grid split_k
// A grid of tiles, cut into workgroups of p.BLOCK columns x TILES / p.BLOCK rows, so that the invocations of a
// workgroup share rows of one operand and columns of the other in the cache.
// Expects p.BLOCK (a power of two up to TILES), p.BLOCKS (workgroups along the columns).

struct Tile { column: u32, row: u32 }

fn tile_of(at: Invocation) -> Tile {
  let g = workgroup_number(at);
  let line = g / p.BLOCKS;
  let place = at.local.x % TILES;
  let inner = place / p.BLOCK;
  return Tile(
    (g - line * p.BLOCKS) * p.BLOCK + place - inner * p.BLOCK,
    line * (TILES / p.BLOCK) + inner,
  );
}
