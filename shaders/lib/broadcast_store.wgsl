// How tiles of 16 rows that a subgroup shares (lib/broadcast_tile.wgsl, lib/broadcast_wide_tile.wgsl) are stored.
// Expects Sums, an array with those of a column of the tile as its first 16; advance() and put_row() of
// lib/broadcast_rows.wgsl;
//   of lib/broadcast_reals.wgsl or one of its kind: finished(m, end, n, sums), which computes what is behind the
//   product where the library does so; stored(sum, by), what is stored of a sum, with by = finished(...);
//   what put_channels() of lib/rows.wgsl or lib/rows_of_fours.wgsl expects.

const ROWS: u32 = 16u;

// Stores rows from m on, in loops that move the sums up: compilers take long for each store that is written out.
fn put_tile(m: u32, end: u32, n: u32, sums: ptr<function, Sums>) {
  let by = finished(m, end, n, sums);
  for (var four = m; four < min(m + ROWS, end); four += 4u) {
    for (var r = four; r < four + 4u; r++) {
      put_row(r, end, n, stored((*sums)[0], by));
      (*sums)[0] = (*sums)[1];
      (*sums)[1] = (*sums)[2];
      (*sums)[2] = (*sums)[3];
    }
    advance(sums);
  }
}
