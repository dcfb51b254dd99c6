//!use flat
// sorted and keys = the places of x's elements and their keys, sorted within strips of STRIP elements of a row, in the
// order of lib/order.wgsl or lib/int64_order.wgsl; among equals the lowest place comes first.
// Expects x, sorted, keys; p.length (elements of a row), p.strips (of a row); p.count, the strips of all rows; STRIP;
// what the order expects. An invocation sorts a strip.

fn compute(i: u32) {
  let row = i / p.strips;
  let strip = (i - row * p.strips) * STRIP;
  let first = row * p.length + strip;
  let count = min(STRIP, p.length - strip);
  var seen: array<Key, STRIP>;
  for (var k = 0u; k < STRIP; k++) { seen[k] = order(load_x(first + min(k, count - 1u))); }
  for (var k = 0u; k < STRIP; k++) {
    var rank = 0u;
    for (var j = 0u; j < STRIP; j++) {
      let before = select(sooner(seen[j], seen[k]), !sooner(seen[k], seen[j]), j < k);
      rank += u32(before && j < count);
    }
    if (k < count) {
      store_sorted(first + rank, i32(first + k));
      store_keys(first + rank, seen[k]);
    }
  }
}
