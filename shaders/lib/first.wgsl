//!use cooperative
// The first element of a row in the order of lib/order.wgsl or lib/int64_order.wgsl; among equals the lowest index
// comes first.
// Expects x; p.length (elements of a row), p.inner (distance between the elements of a row; rows whose numbers differ
// by less than p.inner are side by side); one of these libraries. A cooperative group (lib/cooperative.wgsl) shares a
// row.

var<workgroup> keys: array<Key, WX>;
var<workgroup> places: array<u32, WX>;

struct Ranked { key: Key, place: u32 }

fn precedes(a: Ranked, b: Ranked) -> bool {
  return sooner(a.key, b.key) || (!sooner(b.key, a.key) && a.place < b.place);
}

fn row_start(row: u32) -> u32 { return row / p.inner * (p.inner * p.length) + row % p.inner; }

// The first of `count` elements, among those behind `last` unless `every` is set. Only the member of rank 0 gets the
// right one. All of a workgroup must call it.
fn first(at: Member, start: u32, count: u32, every: bool, last: Ranked) -> Ranked {
  var best = Ranked(latest(), 0xffffffffu);
  for (var k = at.rank; k < count; k += GROUP_SIZE) {
    let found = Ranked(order(load_x(start + k * p.inner)), k);
    if ((every || precedes(last, found)) && precedes(found, best)) {
      best = found;
    }
  }
  return foremost(at, best);
}

// The first of what the members of a group bring. Only the member of rank 0 gets the right one. All of a workgroup
// must call it.
fn foremost(at: Member, own: Ranked) -> Ranked {
  keys[at.local] = own.key;
  places[at.local] = own.place;
  for (var half = GROUP_SIZE / 2u; half > 0u; half /= 2u) {
    workgroupBarrier();
    if (at.rank < half) {
      let other = Ranked(keys[at.local + half], places[at.local + half]);
      if (precedes(other, Ranked(keys[at.local], places[at.local]))) {
        keys[at.local] = other.key;
        places[at.local] = other.place;
      }
    }
  }
  return Ranked(keys[at.local], places[at.local]);
}
