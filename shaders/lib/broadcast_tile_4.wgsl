//!use broadcast_rows
// The entry point for products whose rows a subgroup of four invocations shares: an invocation keeps the sums of 8 rows
// x 8 channels in registers, vec4 columns n and n + 4. A step is four elements of the depth. Of eight rows, each
// invocation loads two, and subgroupBroadcast() hands their elements to the others.
//
// SwiftShader has such subgroups. It loads each element by itself, which takes longer than to multiply it, and takes
// twice as long for larger tiles or longer steps.
// A workgroup is one subgroup: p.BLOCK (lib/tiles.wgsl) is WX, and tiles are counted in invocations.
// Expects Factor, add_products(), step_of(), factors_at(); begin(), weight_at(), add_step(), ending(), stored(); p.M,
// p.DOWN; what else lib/broadcast_tile.wgsl expects, with places and starts of two rows.

const ROWS: u32 = 8u;

// Rows of two columns. All indices are constants, so compilers can keep it in registers.
alias Sums = array<Total, 16>;

@compute @workgroup_size(WX, WY, WZ)
fn main(at: Invocation) {
  let rows = tile_rows(at);
  let n = first_of_two(rows.column, 4u);
  let first = begin(n);
  let second = begin(n + 4u);
  var sums = Sums(
    first, second, first, second, first, second, first, second,
    first, second, first, second, first, second, first, second,
  );
  add_products(&sums, starts(rows.m + at.local.x % 4u * 2u, rows.end), first_weight(rows.matrix, n));
  put_tile(rows.m, rows.end, n, &sums);
}

// Adds the products of the first `count` steps of a depth, whose weights begin at q.
fn add_depth(sums: ptr<function, Sums>, places: Places, count: u32, q: u32) {
  for (var k = 0u; k < count; k++) {
    let step = step_of(k * STEP);
    let x0 = factors_at(places[0], step);
    let x1 = factors_at(places[1], step);
    let low = weights_at(q + k * STEP * 8u);
    let high = weights_at(q + k * STEP * 8u + 4u);
    let r0 = subgroupBroadcast(x0, 0u);
    let r1 = subgroupBroadcast(x1, 0u);
    let r2 = subgroupBroadcast(x0, 1u);
    let r3 = subgroupBroadcast(x1, 1u);
    let r4 = subgroupBroadcast(x0, 2u);
    let r5 = subgroupBroadcast(x1, 2u);
    let r6 = subgroupBroadcast(x0, 3u);
    let r7 = subgroupBroadcast(x1, 3u);
    (*sums)[0] = add_step((*sums)[0], low, r0);
    (*sums)[1] = add_step((*sums)[1], high, r0);
    (*sums)[2] = add_step((*sums)[2], low, r1);
    (*sums)[3] = add_step((*sums)[3], high, r1);
    (*sums)[4] = add_step((*sums)[4], low, r2);
    (*sums)[5] = add_step((*sums)[5], high, r2);
    (*sums)[6] = add_step((*sums)[6], low, r3);
    (*sums)[7] = add_step((*sums)[7], high, r3);
    (*sums)[8] = add_step((*sums)[8], low, r4);
    (*sums)[9] = add_step((*sums)[9], high, r4);
    (*sums)[10] = add_step((*sums)[10], low, r5);
    (*sums)[11] = add_step((*sums)[11], high, r5);
    (*sums)[12] = add_step((*sums)[12], low, r6);
    (*sums)[13] = add_step((*sums)[13], high, r6);
    (*sums)[14] = add_step((*sums)[14], low, r7);
    (*sums)[15] = add_step((*sums)[15], high, r7);
  }
}

// Stores rows from m on, two at a time: compilers take long for each store that is written out.
fn put_tile(m: u32, end: u32, n: u32, sums: ptr<function, Sums>) {
  let low = ending(n);
  let high = ending(n + 4u);
  for (var r = m; r < min(m + ROWS, end); r += 2u) {
    put_row(r, end, n, stored((*sums)[0], low));
    put_row(r, end, n + 4u, stored((*sums)[1], high));
    put_row(r + 1u, end, n, stored((*sums)[2], low));
    put_row(r + 1u, end, n + 4u, stored((*sums)[3], high));
    advance(sums);
  }
}
