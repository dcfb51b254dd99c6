//!use flat
// A grid of tiles, cut into workgroups of p.BLOCK columns x WX / p.BLOCK rows, so that the invocations of a
// workgroup share rows of one operand and columns of the other in the cache.
// Expects WX, p.BLOCK (a power of two up to WX) and p.BLOCKS (workgroups along the columns).

struct Tile { column: u32, row: u32 }

fn tile_of(group: vec3<u32>, groups: vec3<u32>, local: vec3<u32>) -> Tile {
  let g = flat_group(group, groups);
  let line = g / p.BLOCKS;
  let inner = local.x / p.BLOCK;
  return Tile(
    (g - line * p.BLOCKS) * p.BLOCK + local.x - inner * p.BLOCK,
    line * (WX / p.BLOCK) + inner,
  );
}
