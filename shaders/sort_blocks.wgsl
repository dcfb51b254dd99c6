//!use grid
// sorted = the places of x's elements, sorted within blocks of WX elements of a row, in the order of lib/order.wgsl or
// lib/int64_order.wgsl; among equals the lowest place comes first.
// Expects x, sorted; p.length (elements of a row), p.rows, p.blocks (workgroups that share a row); what the order
// expects. An invocation places one element.

var<workgroup> keys: array<Key, WX>;

@compute @workgroup_size(WX, WY, WZ)
fn main(at: Invocation) {
  let number = workgroup_number(at);
  let block = number % p.blocks * WX;
  let first = number / p.blocks * p.length + block;
  let count = min(WX, p.length - block);
  let own = order(load_x(first + min(at.local.x, count - 1u)));
  keys[at.local.x] = own;
  workgroupBarrier();
  var rank = 0u;
  for (var k = 0u; k < count; k++) {
    rank += select(0u, 1u, sooner(keys[k], own) || (!sooner(own, keys[k]) && k < at.local.x));
  }
  if (at.local.x < count && number < p.blocks * p.rows) {
    store_sorted(first + rank, i32(first + at.local.x));
  }
}
