// Finds numbers of x, from place p.first to before p.end, that are out of range. note[0] = the place of the first one,
// or -1; note[1] = that number.
// Expects x (i32 or int64), note; bound: least and greatest number of each range, and what numbers below 0 get added
// first; p.ranges, which apply to the numbers of x in turn; p.first < p.end. One workgroup of WX invocations, a power
// of two, checks all; each takes every WX-th number.

var<workgroup> places: array<u32, WX>;

@compute @workgroup_size(WX, WY, WZ)
fn main(@builtin(local_invocation_id) local: vec3<u32>) {
  var first = 0xffffffffu;
  for (var k = p.first + local.x; k < p.end; k += WX) {
    let range = 3u * (k % p.ranges);
    let number = int_x(k);
    let v = number + select(0, load_bound(range + 2u), number < 0);
    if (v < load_bound(range) || v > load_bound(range + 1u)) {
      first = min(first, k);
    }
  }
  places[local.x] = first;
  for (var half = WX / 2u; half > 0u; half /= 2u) {
    workgroupBarrier();
    if (local.x < half) { places[local.x] = min(places[local.x], places[local.x + half]); }
  }
  if (local.x == 0u) {
    store_note(0u, integer(i32(places[0])));
    store_note(1u, load_x(min(places[0], p.end - 1u)));
  }
}
