//!use broadcast_rows broadcast_store
// The entry point for products whose rows a subgroup shares: an invocation keeps the sums of 16 rows x 4 channels (a
// vec4 column) in registers. All invocations of a subgroup have the same rows, and columns side by side. A step is
// four elements of the depth: of longer ones, compilers take longer for what is written out. Each of eight invocations
// loads the elements of two rows, and subgroupBroadcast() hands them to the others. So a subgroup loads each element of
// both operands once. Rows are those of a matrix, or output pixels.
//
// Subgroups are consecutive invocations along x, at least 8. A workgroup is one subgroup, or several side by side:
// p.BLOCK, its columns (lib/tiles.wgsl), is WX. SPLITS is 1. So each workgroup has rows to compute, and no branch
// around the sums: lavapipe would mask each of their assignments. Rows past the end are computed on the last row and
// not stored.
// Expects
//   p.DEPTH, a multiple of 4; w, blocks of 8 vec4 columns x so many rows (up to a multiple of 8, zeros behind the
//   depth); bias [4 N4], N4 a multiple of 8; p.M (rows), p.N4; p.DOWN (tiles of so many rows): rows of tiles behind
//   that are those of the next p.M rows, with the next such matrix w;
//   Start, and start(m), where row m begins; next_start(s), where the row behind begins; Places, 2 places in rows
//   where add_depth() begins; Step, what the rows have in common in a step;
//   step_of(k), the step that begins with element k, a multiple of 4; factors_at(place, step), the factors of these
//   four elements, with 0 behind the depth;
//   add_products(sums, starts, q), which calls add_depth(); q: where the weights of the columns begin;
//   of lib/broadcast_reals.wgsl or one of its kind: Total, the type of sums; Factor, that of an element of a factor, as
//   it is multiplied; begin(n), which has the bias; factor_of(x), factors_of(x), the factors of one element and of
//   four; weight_at(q); add_step(sum, w, x), which adds the products with the factors of a row;
//   what lib/broadcast_store.wgsl expects.
// lib/broadcast_tile_4.wgsl has the same for subgroups of four, lib/broadcast_wide_tile.wgsl for weights in textures.

// All its indices are constants, so compilers can keep it in registers.
alias Sums = array<Total, ROWS>;

@compute @workgroup_size(WX, WY, WZ)
fn main(at: Invocation) {
  let rows = tile_rows(at);
  let n = min(rows.column, p.N4 - 1u);
  let first = begin(n);
  var sums = Sums(
    first, first, first, first, first, first, first, first,
    first, first, first, first, first, first, first, first,
  );
  add_products(&sums, starts(rows.m + at.local.x % 8u * 2u, rows.end), first_weight(rows.matrix, n));
  if (rows.column < p.N4) { put_tile(rows.m, rows.end, n, &sums); }
}

// Adds the products of the first `count` steps of a depth, whose weights begin at q. The factors are loaded first:
// compilers of CPUs put elements into a vector one by one, which takes long once the registers are full of weights.
fn add_depth(sums: ptr<function, Sums>, places: Places, count: u32, q: u32) {
  for (var k = 0u; k < count; k++) {
    let step = step_of(k * STEP);
    let x0 = factors_at(places[0], step);
    let x1 = factors_at(places[1], step);
    let w = weights_at(q + k * STEP * 8u);
    (*sums)[0] = add_step((*sums)[0], w, subgroupBroadcast(x0, 0u));
    (*sums)[1] = add_step((*sums)[1], w, subgroupBroadcast(x1, 0u));
    (*sums)[2] = add_step((*sums)[2], w, subgroupBroadcast(x0, 1u));
    (*sums)[3] = add_step((*sums)[3], w, subgroupBroadcast(x1, 1u));
    (*sums)[4] = add_step((*sums)[4], w, subgroupBroadcast(x0, 2u));
    (*sums)[5] = add_step((*sums)[5], w, subgroupBroadcast(x1, 2u));
    (*sums)[6] = add_step((*sums)[6], w, subgroupBroadcast(x0, 3u));
    (*sums)[7] = add_step((*sums)[7], w, subgroupBroadcast(x1, 3u));
    (*sums)[8] = add_step((*sums)[8], w, subgroupBroadcast(x0, 4u));
    (*sums)[9] = add_step((*sums)[9], w, subgroupBroadcast(x1, 4u));
    (*sums)[10] = add_step((*sums)[10], w, subgroupBroadcast(x0, 5u));
    (*sums)[11] = add_step((*sums)[11], w, subgroupBroadcast(x1, 5u));
    (*sums)[12] = add_step((*sums)[12], w, subgroupBroadcast(x0, 6u));
    (*sums)[13] = add_step((*sums)[13], w, subgroupBroadcast(x1, 6u));
    (*sums)[14] = add_step((*sums)[14], w, subgroupBroadcast(x0, 7u));
    (*sums)[15] = add_step((*sums)[15], w, subgroupBroadcast(x1, 7u));
  }
}
