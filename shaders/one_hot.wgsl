//!use flat
// y = on if an element's place along the new axis is its index, else off.
// Expects index, on, off (one element each), y; p.count, the elements of y; p.depth, the extent of the new axis;
// p.inner, the elements behind it. An invocation computes one element.

fn compute(i: u32) {
  let line = i / p.inner;
  let hot = int_index((line / p.depth) * p.inner + i % p.inner) == i32(line % p.depth);
  store_y(i, select(load_off(0u), load_on(0u), hot));
}
