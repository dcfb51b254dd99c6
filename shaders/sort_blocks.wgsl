//!use grid
// sorted and keys = the places of x's elements and their keys, sorted within blocks of WX elements of a row, in the
// order of lib/order.wgsl or lib/int64_order.wgsl, of each block the first p.run; among equals the lowest place comes
// first.
// Expects x, sorted, keys; p.length (elements of a row), p.rows, p.blocks (workgroups that share a row), p.total (what
// a row keeps); what the order expects. An invocation places one element.

var<workgroup> seen: array<Key, WX>;

@compute @workgroup_size(WX, WY, WZ)
fn main(at: Invocation) {
  let number = workgroup_number(at);
  let row = number / p.blocks;
  let block = number - row * p.blocks;
  let first = row * p.length + block * WX;
  let count = min(WX, p.length - block * WX);
  let own = order(load_x(first + min(at.local.x, count - 1u)));
  seen[at.local.x] = own;
  workgroupBarrier();
  var rank = 0u;
  for (var k = 0u; k < count; k++) {
    rank += select(0u, 1u, sooner(seen[k], own) || (!sooner(own, seen[k]) && k < at.local.x));
  }
  if (at.local.x < count && rank < p.run && row < p.rows) {
    let place = row * p.total + block * p.run + rank;
    store_sorted(place, i32(first + at.local.x));
    store_keys(place, own);
  }
}
