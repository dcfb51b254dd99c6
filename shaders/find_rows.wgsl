//!use flat
// row_of = the row that each update names, 0x7fffffff where it names none.
// Expects index (i32 or wider), row_of; p.count, the number of updates, with p.width indices each, of which the first
// p.depth are a place within the extents of `extent`. An invocation finds one row.

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
