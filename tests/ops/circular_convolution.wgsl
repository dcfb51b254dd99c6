//!use flat
// y = apply(the circular convolution of rows of x with c).
// Expects x, c, y; apply(v); p.count, the number of elements; p.length, that of a row. An invocation computes one element.

fn compute(i: u32) {
  let place = i % p.length;
  var sum = T(0);
  for (var k = 0u; k < p.length; k++) {
    sum += load_x(i - place + k) * load_c((place + p.length - k) % p.length);
  }
  store_y(i, apply(sum));
}
