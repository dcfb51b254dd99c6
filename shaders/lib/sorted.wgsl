// Updates in the order of their rows: pairs of a row and an update's number (gpunn/ops/by_row.py).
// Expects sorted.

const NOWHERE = 0x7ffffffe; // the row of updates that name none

// How many of the `count` sorted updates from `first` on are of rows before `row`.
fn before(row: i32, first: u32, count: u32) -> u32 {
  var low = 0u;
  var high = count;
  while (low < high) {
    let middle = (low + high) / 2u;
    if (load_sorted(2u * (first + middle)) < row) {
      low = middle + 1u;
    } else {
      high = middle;
    }
  }
  return low;
}
