//!use flat
// row_of = the row that each update names, 0x7fffffff if it names none.
// Expects index (i32 or int64), row_of; p.count (updates), p.width (indices of an update), p.depth (how many of these,
// from the first on, name a place); extent, the extents that the place must be within. An invocation finds one row.

fn compute(i: u32) {
  var row = 0;
  var inside = true;
  for (var d = 0u; d < p.depth; d++) {
    let place = int_index(i * p.width + d);
    inside &= place >= 0 && place < load_extent(d);
    row = row * load_extent(d) + place;
  }
  store_row_of(i, select(0x7fffffff, row, inside));
}
