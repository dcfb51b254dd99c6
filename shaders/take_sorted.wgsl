//!use flat
// y[row, rank] = the element with that rank in a row of x, index[row, rank] = its place in the row.
// Expects x, sorted (places in x, row by row), y, index; p.count, the elements of y; p.length (elements of a row of x),
// p.total (places of a row), p.k (of a row of y). An invocation computes one element.

fn compute(i: u32) {
  let row = i / p.k;
  let place = u32(load_sorted(row * p.total + i - row * p.k));
  store_y(i, load_x(place));
  store_index(i, i32(place - row * p.length));
}
