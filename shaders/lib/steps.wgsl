// How many of the thresholds of a result a number reaches, by binary search.
// Expects least, 2 HALF thresholds in ascending order; the first one is not looked at.

fn reached(x: i32) -> u32 {
  var k = 0u;
  for (var step = HALF; step > 0u; step /= 2u) {
    if (x >= load_least(k + step)) {
      k += step;
    }
  }
  return k;
}
