// Running sums of a row of x in y, up to each element.
// Expects x, y; plus(a, b); EXCLUSIVE (1: without the element itself), REVERSE (1: from the end of the row).

// The place of element k of a row of `length` elements, `inner` elements apart; rows whose numbers differ by less than
// that are side by side.
fn place_in_row(row: u32, k: u32, length: u32, inner: u32) -> u32 {
  return row / inner * (inner * length) + row % inner + select(k, length - 1u - k, REVERSE == 1u) * inner;
}

// Adds the elements from `first` to before `end` to the sum of those before them, and returns the sum of all these.
fn sum_row(row: u32, first: u32, end: u32, length: u32, inner: u32, before: T) -> T {
  var sum = before;
  for (var k = first; k < end; k++) {
    let i = place_in_row(row, k, length, inner);
    let next = plus(sum, load_x(i));
    store_y(i, select(next, sum, EXCLUSIVE == 1u));
    sum = next;
  }
  return sum;
}
