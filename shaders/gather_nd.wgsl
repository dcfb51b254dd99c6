//!use flat
// y[i] = x[index[i, 0], index[i, 1], ...], whole rows; an index out of range counts as the nearest one inside.
// Expects index (i32 or int64), x; lib/each.wgsl or lib/each_of_four.wgsl; p.row, the V's of a row; p.depth, the
// indices that name a row; step: for each of them x's extent and its stride in rows.

fn element(i: u32) -> V {
  let name = i / p.row * p.depth;
  var row = 0;
  for (var d = 0u; d < p.depth; d++) {
    row += clamp(int_index(name + d), 0, load_step(2u * d) - 1) * load_step(2u * d + 1u);
  }
  return loadv_x(u32(row) * p.row + i % p.row);
}
