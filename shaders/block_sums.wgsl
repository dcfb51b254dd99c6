//!use flat running_sums
// y [blocks, rows] = the sum of each block of x's rows, for shaders/cumsum_blocks.wgsl.
// Expects x, y; p.rows, p.length (elements of a row), p.inner (distance between the elements of a row); p.block,
// the elements of a block; p.count, the blocks of all rows; what lib/running_sums.wgsl expects. An invocation sums a
// block.

fn compute(i: u32) {
  let block = i / p.rows;
  let row = i - block * p.rows;
  let first = block * p.block;
  let end = min(first + p.block, p.length);
  var sum = load_x(place_in_row(row, first, p.length, p.inner));
  for (var k = first + 1u; k < end; k++) { sum = plus(sum, load_x(place_in_row(row, k, p.length, p.inner))); }
  store_y(i, sum);
}
