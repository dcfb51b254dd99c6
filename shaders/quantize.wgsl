//!use flat nan ascending
// y = the stored integer of each real x: p.ends.x, plus 1 for each of the thresholds `least` that x reaches.
// Expects x; least (thresholds, each as lib/ascending.wgsl makes it); reached(key) of lib/near_steps.wgsl or
// lib/steps.wgsl, how many of them a number reaches; y; p.count, the fours of x; p.ends.y, the result for NaN. An
// invocation computes four elements.

fn stored(x: f32) -> i32 {
  let key = ascending(bitcast<i32>(x)); // compared as f32, subnormal numbers may count as 0
  return select(p.ends.x + i32(reached(key)), p.ends.y, is_nan(x));
}

fn compute(i: u32) {
  let x = load4_x(i);
  store4_y(i, vec4<i32>(stored(x.x), stored(x.y), stored(x.z), stored(x.w)));
}
