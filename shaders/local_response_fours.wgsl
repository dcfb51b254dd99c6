//!use flat response
// y = shaders/local_response.wgsl's along the innermost dimension, whose extent 4 divides.
// Expects x, y, by fours; p.count, the fours of y; p.length (extent of the dimension, in elements); p.radius;
// finish(x, sum), which is normalised(x, sum); what lib/response.wgsl expects. An invocation computes four elements;
// each that it loads is a neighbour of up to four.

fn square(row: u32, place: u32) -> T {
  let inside = place < p.length;
  let x = select(T(0), load_x(row * p.length + select(0u, place, inside)), inside);
  return x * x;
}

fn compute(i: u32) {
  let row = 4u * i / p.length;
  let place = 4u * i - row * p.length;
  let first = place - p.radius;
  var sum = V(T(0));
  var seen = V(T(0), square(row, first), square(row, first + 1u), square(row, first + 2u));
  let end = end_of_loop(2u * p.radius + 1u, place < p.length);
  for (var n = 0u; n < end; n++) {
    seen = V(seen.yzw, square(row, first + n + 3u));
    sum += seen;
  }
  storev_y(i, finishv(loadv_x(i), sum));
}
