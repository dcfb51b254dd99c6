//!use grid
// The bits of parameters of every kind, as 10 words. Expects y; p.count, p.real, p.many, p.point, p.words.

@compute @workgroup_size(WX, WY, WZ)
fn main(at: Invocation) {
  if (at.local.x > 0u) { return; }
  store_y(0u, bitcast<i32>(p.count));
  store_y(1u, bitcast<i32>(p.real));
  store_y(2u, p.many.x);
  store_y(3u, p.many.y);
  store_y(4u, p.many.z);
  store_y(5u, p.many.w);
  store_y(6u, bitcast<i32>(p.point.x));
  store_y(7u, bitcast<i32>(p.point.y));
  store_y(8u, bitcast<i32>(p.words.x));
  store_y(9u, bitcast<i32>(p.words.y));
}
