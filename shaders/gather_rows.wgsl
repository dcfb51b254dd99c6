//!use flat
// y[batch, block, pick] = x[batch, block, index[batch, pick]], whole rows; an index out of range reads the nearest row.
// Expects index (i32 or int64), x; lib/each.wgsl or lib/each_of_four.wgsl; p.row, the V's of a row; p.rows, the rows of
// a block of x; p.picks, the rows of a block of y; p.outer, the blocks of a batch.

fn element(i: u32) -> V {
  let place = i / p.row;
  let block = place / p.picks;
  let pick = block / p.outer * p.picks + place % p.picks;
  let row = u32(clamp(int_index(pick), 0, i32(p.rows) - 1));
  return loadv_x((block * p.rows + row) * p.row + i % p.row);
}
