//!use flat
// y = table[x] for every stored value of x.
// Expects x, table (a result for each value's bits, and as many more for the fours from p.first on, where there are
// such), LAST (255 or 65535: the bits of a value), y; p.count, the number of fours of x. An invocation reads four.

fn compute(i: u32) {
  let at = (vec4<u32>(load4_x(i)) & vec4<u32>(LAST)) + select(0u, LAST + 1u, i >= p.first);
  store4_y(i, vec4<T>(load_table(at.x), load_table(at.y), load_table(at.z), load_table(at.w)));
}
