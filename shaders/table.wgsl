//!use flat
// y = table[x] for every stored value of x.
// Expects x; table, with a result for each value's bits; LAST (255 or 65535: the bits of a value); y; p.fours, those
// of x; p.each, how many an invocation computes; p.count, the invocations. From four p.first on, the second half of the
// table applies.

fn compute(group: u32) {
  let first = p.each * group;
  let end = end_of_loop(min(first + p.each, p.fours), first < p.fours);
  for (var i = first; i < end; i++) { look_up_four(i); }
}

fn look_up_four(i: u32) {
  let at = (vec4<u32>(load4_x(i)) & vec4<u32>(LAST)) + select(0u, LAST + 1u, i >= p.first);
  store4_y(i, vec4<T>(load_table(at.x), load_table(at.y), load_table(at.z), load_table(at.w)));
}
