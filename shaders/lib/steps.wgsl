// Which of the steps of a result a number reaches.
// Expects least, 2 HALF thresholds in order; the first is not looked at.

fn reached(x: i32) -> u32 {
  var k = 0u;
  for (var step = HALF; step > 0u; step /= 2u) {
    if (x >= load_least(k + step)) {
      k += step;
    }
  }
  return k;
}
