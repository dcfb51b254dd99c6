// A result element by element, where one is no V of four, but is stored with three others; the last of these may lie
// behind y. Expects y; element(i), what y has at place i; p.count, the fours of y. An invocation computes four
// elements.

fn compute(i: u32) {
  let k = 4u * i;
  store4_y(i, vec4<T>(element(k), element(k + 1u), element(k + 2u), element(k + 3u)));
}
