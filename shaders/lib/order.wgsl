//!use ascending keys
// Numbers as integers with numpy's order, on every driver (gpunn/ops/reduction/order.py). For int64:
// lib/int64_order.wgsl.
// Expects x; REAL (1: x is f32, 0: i32), DESCENDING (1: the greatest number comes first, 0: the smallest).

// NaN comes first, and both zeros have one key.
fn order(x: T_x) -> Key {
  var key = bitcast<i32>(x);
  if (REAL == 1u) {
    key = ascending(key);
    if (abs(key) > 0x7f800000) { return 0x7fffffff; }
  }
  return select(~key, key, DESCENDING == 1u);
}
