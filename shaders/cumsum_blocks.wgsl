//!use flat running_sums
// y = the sums of x along rows, up to each element, where a row is divided into blocks.
// Expects x, y; before [blocks, rows], the sum of the elements before each block; p.rows, p.length (elements of a row),
// p.inner (distance between the elements of a row); p.block, the elements of a block; p.count, the blocks of all rows;
// what lib/running_sums.wgsl expects. An invocation sums a block.

fn compute(i: u32) {
  let block = i / p.rows;
  let first = block * p.block;
  _ = sum_row(i - block * p.rows, first, min(first + p.block, p.length), p.length, p.inner, load_before(i));
}
