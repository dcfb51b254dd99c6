//!use members
// y = pick(value, index) of the first p.k along a row in the order of lib/order.wgsl or lib/wide_order.wgsl, the lowest
// index first among equals. Expects x, y; p.rows, p.length (elements of a row), p.inner (distance between a row's
// elements, and y's; rows whose numbers differ by less lie side by side); what these expect. A team (lib/members.wgsl)
// shares a row, and walks it p.k times.

var<workgroup> keys: array<Key, WX>;
var<workgroup> places: array<u32, WX>;

fn precedes(key: Key, place: u32, other: Key, elsewhere: u32) -> bool {
  return sooner(key, other) || (!sooner(other, key) && place < elsewhere);
}

@compute @workgroup_size(WX, WY, WZ)
fn main(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_id) local: vec3<u32>,
) {
  let row = team_of(group, groups, local);
  let own = member(local);
  let start = row / p.inner * (p.inner * p.length) + row % p.inner;
  let count = select(0u, p.length, row < p.rows);
  var last = latest();
  var last_place = 0u;
  for (var rank = 0u; rank < p.k; rank++) {
    var first = latest();
    var place = 0xffffffffu;
    for (var k = own; k < count; k += TEAM) {
      let key = order(load_x(start + k * p.inner));
      let left = rank == 0u || precedes(last, last_place, key, k);
      if (left && precedes(key, k, first, place)) {
        first = key;
        place = k;
      }
    }
    workgroupBarrier();
    keys[local.x] = first;
    places[local.x] = place;
    for (var half = TEAM / 2u; half > 0u; half /= 2u) {
      workgroupBarrier();
      if (own < half && precedes(keys[local.x + half], places[local.x + half], keys[local.x], places[local.x])) {
        keys[local.x] = keys[local.x + half];
        places[local.x] = places[local.x + half];
      }
    }
    workgroupBarrier();
    last = keys[local.x - own];
    last_place = places[local.x - own];
    if (own == 0u && row < p.rows) {
      let at = (row / p.inner * p.k + rank) * p.inner + row % p.inner;
      store_y(at, pick(load_x(start + last_place * p.inner), integer(i32(last_place))));
    }
  }
}
