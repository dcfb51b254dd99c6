//!use broadcast_rows broadcast_store
// The entry point for products whose rows a subgroup shares, as lib/broadcast_tile.wgsl, but an invocation keeps the
// sums of 16 rows x 8 channels: vec4 columns n and n + 8, of two blocks of the weights. So there are as many products
// for each element of a row as two such tiles have. It is for drivers that load weights much sooner than elements of
// rows: they have weights in textures, and rows in buffers.
//
// A workgroup is one subgroup: p.BLOCK (lib/tiles.wgsl) is WX, and tiles are counted in invocations. Where the second
// column lies behind the last one, its weights may be any, and its sums are not stored.
// Expects add_products(), step_of(), factors_at(); begin(), add_step(); p.M, p.N4, p.DOWN, p.DEPTH; what else
// lib/broadcast_tile.wgsl expects.

// Those of the first column, then those of the second. All its indices are constants.
alias Sums = array<Total, 32>;

@compute @workgroup_size(WX, WY, WZ)
fn main(at: Invocation) {
  let rows = tile_rows(at);
  let n = first_of_two(rows.column, 8u);
  let first = begin(n);
  let second = begin(min(n + 8u, p.N4 - 1u));
  var sums = Sums(
    first, first, first, first, first, first, first, first,
    first, first, first, first, first, first, first, first,
    second, second, second, second, second, second, second, second,
    second, second, second, second, second, second, second, second,
  );
  add_products(&sums, starts(rows.m + at.local.x % 8u * 2u, rows.end), first_weight(rows.matrix, n));
  put_tiles(rows.m, rows.end, n, &sums);
}

// Adds the products of the first `count` steps of a depth, whose weights begin at q.
fn add_depth(sums: ptr<function, Sums>, places: Places, count: u32, q: u32) {
  let beside = (p.DEPTH + 4u) / 8u * 8u * 8u; // from a block of weights to the next
  for (var k = 0u; k < count; k++) {
    let step = step_of(k * STEP);
    let x0 = factors_at(places[0], step);
    let x1 = factors_at(places[1], step);
    let low = weights_at(q + k * STEP * 8u);
    let high = weights_at(q + beside + k * STEP * 8u);
    let r0 = subgroupBroadcast(x0, 0u);
    (*sums)[0] = add_step((*sums)[0], low, r0);
    (*sums)[16] = add_step((*sums)[16], high, r0);
    let r1 = subgroupBroadcast(x1, 0u);
    (*sums)[1] = add_step((*sums)[1], low, r1);
    (*sums)[17] = add_step((*sums)[17], high, r1);
    let r2 = subgroupBroadcast(x0, 1u);
    (*sums)[2] = add_step((*sums)[2], low, r2);
    (*sums)[18] = add_step((*sums)[18], high, r2);
    let r3 = subgroupBroadcast(x1, 1u);
    (*sums)[3] = add_step((*sums)[3], low, r3);
    (*sums)[19] = add_step((*sums)[19], high, r3);
    let r4 = subgroupBroadcast(x0, 2u);
    (*sums)[4] = add_step((*sums)[4], low, r4);
    (*sums)[20] = add_step((*sums)[20], high, r4);
    let r5 = subgroupBroadcast(x1, 2u);
    (*sums)[5] = add_step((*sums)[5], low, r5);
    (*sums)[21] = add_step((*sums)[21], high, r5);
    let r6 = subgroupBroadcast(x0, 3u);
    (*sums)[6] = add_step((*sums)[6], low, r6);
    (*sums)[22] = add_step((*sums)[22], high, r6);
    let r7 = subgroupBroadcast(x1, 3u);
    (*sums)[7] = add_step((*sums)[7], low, r7);
    (*sums)[23] = add_step((*sums)[23], high, r7);
    let r8 = subgroupBroadcast(x0, 4u);
    (*sums)[8] = add_step((*sums)[8], low, r8);
    (*sums)[24] = add_step((*sums)[24], high, r8);
    let r9 = subgroupBroadcast(x1, 4u);
    (*sums)[9] = add_step((*sums)[9], low, r9);
    (*sums)[25] = add_step((*sums)[25], high, r9);
    let r10 = subgroupBroadcast(x0, 5u);
    (*sums)[10] = add_step((*sums)[10], low, r10);
    (*sums)[26] = add_step((*sums)[26], high, r10);
    let r11 = subgroupBroadcast(x1, 5u);
    (*sums)[11] = add_step((*sums)[11], low, r11);
    (*sums)[27] = add_step((*sums)[27], high, r11);
    let r12 = subgroupBroadcast(x0, 6u);
    (*sums)[12] = add_step((*sums)[12], low, r12);
    (*sums)[28] = add_step((*sums)[28], high, r12);
    let r13 = subgroupBroadcast(x1, 6u);
    (*sums)[13] = add_step((*sums)[13], low, r13);
    (*sums)[29] = add_step((*sums)[29], high, r13);
    let r14 = subgroupBroadcast(x0, 7u);
    (*sums)[14] = add_step((*sums)[14], low, r14);
    (*sums)[30] = add_step((*sums)[30], high, r14);
    let r15 = subgroupBroadcast(x1, 7u);
    (*sums)[15] = add_step((*sums)[15], low, r15);
    (*sums)[31] = add_step((*sums)[31], high, r15);
  }
}

// Stores both columns.
fn put_tiles(m: u32, end: u32, n: u32, sums: ptr<function, Sums>) {
  put_tile(m, end, n, sums);
  (*sums)[0] = (*sums)[16];
  (*sums)[1] = (*sums)[17];
  (*sums)[2] = (*sums)[18];
  (*sums)[3] = (*sums)[19];
  (*sums)[4] = (*sums)[20];
  (*sums)[5] = (*sums)[21];
  (*sums)[6] = (*sums)[22];
  (*sums)[7] = (*sums)[23];
  (*sums)[8] = (*sums)[24];
  (*sums)[9] = (*sums)[25];
  (*sums)[10] = (*sums)[26];
  (*sums)[11] = (*sums)[27];
  (*sums)[12] = (*sums)[28];
  (*sums)[13] = (*sums)[29];
  (*sums)[14] = (*sums)[30];
  (*sums)[15] = (*sums)[31];
  put_tile(m, end, min(n + 8u, p.N4), sums);
}
