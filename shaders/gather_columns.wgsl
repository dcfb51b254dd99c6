//!use flat
// y[row, start + pick, :] = x[index[row, first + pick], :]; an index out of range reads the nearest row of x.
// Expects index (i32 or int64), x, y; p.count, the V's to copy; p.dim, the V's of a row of x; p.extent, the rows of x;
// p.picks, the indices of a row that are used, from p.first on; p.columns, all indices of a row; p.width, the V's of a
// row of y; p.start, the V where the copies begin. An invocation copies one V.

fn compute(i: u32) {
  let span = p.picks * p.dim;
  let row = i / span;
  let along = i % span;
  let found = u32(clamp(int_index(row * p.columns + p.first + along / p.dim), 0, i32(p.extent) - 1));
  storev_y(row * p.width + p.start + along, loadv_x(found * p.dim + along % p.dim));
}
