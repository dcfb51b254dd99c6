//!use blocks split_k
// Tiles of a product (lib/blocks.wgsl): the invocations of a workgroup share rows of one operand and columns of the
// other in the cache. Expects what lib/blocks.wgsl and lib/split_k.wgsl expect.

fn tile_of(at: Invocation) -> Tile { return tile_among(at, TILES); }
