// Where a slice begins whose starts are values (gpunn/ops/indexing/place.py): as near to them as the slice fits.
// Expects start (i32 or int64); p.starts, the number of starts; place: for each of them the number that is added if it
// is below 0, its greatest value, and the V's by which it counts.

fn slice_start() -> u32 {
  var first = 0u;
  for (var d = 0u; d < p.starts; d++) {
    let start = int_start(d);
    let inside = clamp(start + select(0, load_place(3u * d), start < 0), 0, load_place(3u * d + 1u));
    first += u32(inside * load_place(3u * d + 2u));
  }
  return first;
}
