//!use members
// The first of a row in the order of lib/order.wgsl or lib/wide_order.wgsl, the lowest index first among equals.
// Expects x; p.length (elements of a row), p.inner (distance between these; rows whose numbers differ by less lie side
// by side); one of these libraries. A team (lib/members.wgsl) shares a row.

var<workgroup> keys: array<Key, WX>;
var<workgroup> places: array<u32, WX>;

struct Ranked { key: Key, place: u32 }

fn precedes(a: Ranked, b: Ranked) -> bool {
  return sooner(a.key, b.key) || (!sooner(b.key, a.key) && a.place < b.place);
}

fn row_start(row: u32) -> u32 { return row / p.inner * (p.inner * p.length) + row % p.inner; }

// The first of `count` elements; of those behind `last`, unless `every` one may be it. What a team's first invocation
// gets is right. All of a workgroup must call it.
fn first(local: vec3<u32>, start: u32, count: u32, every: bool, last: Ranked) -> Ranked {
  var best = Ranked(latest(), 0xffffffffu);
  for (var k = member(local); k < count; k += TEAM) {
    let found = Ranked(order(load_x(start + k * p.inner)), k);
    if ((every || precedes(last, found)) && precedes(found, best)) {
      best = found;
    }
  }
  keys[local.x] = best.key;
  places[local.x] = best.place;
  for (var half = TEAM / 2u; half > 0u; half /= 2u) {
    workgroupBarrier();
    if (member(local) < half) {
      let other = Ranked(keys[local.x + half], places[local.x + half]);
      if (precedes(other, Ranked(keys[local.x], places[local.x]))) {
        keys[local.x] = other.key;
        places[local.x] = other.place;
      }
    }
  }
  return Ranked(keys[local.x], places[local.x]);
}
