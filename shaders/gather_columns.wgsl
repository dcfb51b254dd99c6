//!use flat
// y[row, start + pick, :] = x[index[row, first + pick], :]; an index out of range reads the nearest of x's rows.
// Expects index (i32, or wider), x, y; p.count, the number of V's to copy; p.dim, the V's of one of x's rows; p.extent,
// x's rows; p.picks, the indices that a row takes, from p.first on, of the p.columns that it has; p.width, the V's of
// y's row, and p.start, the V where they go. An invocation copies one V.

fn compute(i: u32) {
  let span = p.picks * p.dim;
  let row = i / span;
  let along = i % span;
  let found = u32(clamp(int_index(row * p.columns + p.first + along / p.dim), 0, i32(p.extent) - 1));
  storev_y(row * p.width + p.start + along, loadv_x(found * p.dim + along % p.dim));
}
