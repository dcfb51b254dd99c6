// How many of the thresholds of a result a real reaches: a product says so, and the thresholds beside it decide.
// Expects least, thresholds in ascending order, each as lib/ascending.wgsl makes it: every number reaches the first,
// none the last; p.inverse, 1 / the distance of two; p.bottom and p.top, the least and the greatest number of such
// distances around 0.

fn reached(key: i32) -> u32 {
  let x = bitcast<f32>(select(key, bitcast<i32>(0x80000000u) - key, key < 0));
  let near = u32(clamp(x * p.inverse, p.bottom, p.top) - p.bottom + 0.5);
  return near - 1u + u32(key >= load_least(near)) + u32(key >= load_least(near + 1u));
}
