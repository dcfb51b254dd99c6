// The first of the sorted updates of a row, by halving.
// Expects p.updates, how many there are; row_at(k) of lib/by_row.wgsl.

fn before(row: i32) -> u32 {
  var low = 0u;
  var high = p.updates;
  while (low < high) {
    let middle = (low + high) / 2u;
    if (row_at(middle) < row) {
      low = middle + 1u;
    } else {
      high = middle;
    }
  }
  return low;
}
