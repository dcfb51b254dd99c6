//!use flat
// y = x + 1. Expects x, y; p.count; p.rounds, how much needless work there is; p.quarters, which are added besides.

fn compute(i: u32) {
  var mixed = i;
  for (var k = 0u; k < p.rounds; k++) { mixed = (mixed ^ (mixed >> 7u)) * 1664525u + 1013904223u; }
  store_y(i, load_x(i) + 1.0 + 0.25 * f32(select(p.quarters, p.quarters * 2u, mixed == 1u)));
}
