// lib/steps.wgsl for numbers of 64 bits (lib/int64.wgsl): how many of the thresholds of a result one reaches, by binary
// search. Expects least, 2 HALF thresholds in ascending order, int64; the first one is not looked at.

fn reached(x: I64) -> u32 {
  var k = 0u;
  for (var step = HALF; step > 0u; step /= 2u) {
    if (!i64_less(x, load_least(k + step))) {
      k += step;
    }
  }
  return k;
}
