// Updates in the order of their rows (gpunn/ops/kernels/by_row.py).
// Expects sorted (the numbers of updates, ordered by row), row_of (the row of an update), p.updates.

// The number of sorted updates that belong to rows before `row`.
fn before(row: i32) -> u32 {
  var low = 0u;
  var high = p.updates;
  while (low < high) {
    let middle = (low + high) / 2u;
    if (load_row_of(u32(load_sorted(middle))) < row) {
      low = middle + 1u;
    } else {
      high = middle;
    }
  }
  return low;
}
