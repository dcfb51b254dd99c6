// Where a slice begins that values name (gpunn/ops/indexing/place.py): as near to them as it fits.
// Expects start (i32, or wider); p.starts, the number of starts; place, for each of them what is added to one below 0,
// the room that there is, and the V's by which it counts.

fn slice_start() -> u32 {
  var first = 0u;
  for (var d = 0u; d < p.starts; d++) {
    let start = int_start(d);
    let inside = clamp(start + select(0, load_place(3u * d), start < 0), 0, load_place(3u * d + 1u));
    first += u32(inside * load_place(3u * d + 2u));
  }
  return first;
}
