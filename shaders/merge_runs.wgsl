//!use flat
// merged = sorted, with each two neighbouring runs of p.run places of a row merged into one. Among equals the first run
// comes first.
// Expects x; sorted (places in x; each run is in the order of lib/order.wgsl or lib/int64_order.wgsl), merged; p.count,
// the elements of x; p.length (elements of a row), p.run; what the order expects. An invocation moves one place.

fn key_at(i: u32) -> Key { return order(load_x(u32(load_sorted(i)))); }

fn compute(i: u32) {
  let within = i % p.length;
  let run = within / p.run;
  let other = min((run ^ 1u) * p.run, p.length);
  let start = i - within + other;
  let second = run % 2u == 1u;
  let own = key_at(i);
  var low = 0u;
  var high = min(p.run, p.length - other);
  while (low < high) {
    let middle = (low + high) / 2u;
    let key = key_at(start + middle);
    if (sooner(key, own) || (second && !sooner(own, key))) {
      low = middle + 1u;
    } else {
      high = middle;
    }
  }
  store_merged(select(i, i - p.run, second) + low, load_sorted(i));
}
