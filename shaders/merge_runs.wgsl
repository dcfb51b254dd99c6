//!use flat
// merged and after = the places and keys of rows in which each two neighbouring runs have become one, cut off behind
// p.longer of its elements. Among equals the first run comes first.
// Expects sorted (places) and keys, each run in the order of lib/keys.wgsl or lib/int64_keys.wgsl; merged, after;
// p.run and p.length, of a run and of a row before, p.longer and p.total, of a run and of a row after, all in elements;
// p.strips, of a row; p.count, the strips of all rows; STRIP; one of these libraries. An invocation merges a strip of
// STRIP elements; it finds by halving how many of those before the strip come from each run.

fn compute(i: u32) {
  let row = i / p.strips;
  let strip = (i - row * p.strips) * STRIP;
  let pair = strip / p.longer;
  let skipped = strip - pair * p.longer;
  let begin = pair * 2u * p.run;
  let left = min(p.run, p.length - begin);
  let right = min(p.run, p.length - begin - left);
  let a = row * p.length + begin;
  let b = a + left;
  var low = skipped - min(skipped, right);
  var high = min(skipped, left);
  while (low < high) {
    let middle = (low + high) / 2u;
    if (sooner(load_keys(b + skipped - 1u - middle), load_keys(a + middle))) {
      high = middle;
    } else {
      low = middle + 1u;
    }
  }
  var from_a = low;
  var from_b = skipped - low;
  var key_a = load_keys(a + from_a);
  var key_b = load_keys(b + from_b);
  let to = row * p.total + strip;
  let end = min(min(STRIP, p.total - strip), p.longer - skipped);
  for (var k = 0u; k < end; k++) {
    let first = from_a < left && (from_b >= right || !sooner(key_b, key_a));
    store_merged(to + k, load_sorted(select(b + from_b, a + from_a, first)));
    store_after(to + k, select(key_b, key_a, first));
    from_a += u32(first);
    from_b += u32(!first);
    let next = load_keys(select(b + from_b, a + from_a, first));
    key_a = select(key_a, next, first);
    key_b = select(next, key_b, first);
  }
}
