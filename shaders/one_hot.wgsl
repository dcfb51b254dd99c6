//!use flat
// y = on if an element's place along the new axis is its index, else off.
// Expects index, on, off (one element each); lib/each.wgsl or lib/each_of_four.wgsl; p.depth, the extent of the new
// axis; p.inner, the elements behind it.

fn element(i: u32) -> V {
  let line = i / p.inner;
  let hot = int_index((line / p.depth) * p.inner + i % p.inner) == i32(line % p.depth);
  return select(load_off(0u), load_on(0u), hot);
}
