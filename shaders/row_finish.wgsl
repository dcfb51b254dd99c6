//!use flat
// y = finish(relative(x, top), sum, settle(sum), upper), where top and sum are those of the element's row, and upper is
// the upper word of the sum if that has 64 bits: the last loop of shaders/normalize.wgsl for rows that one dispatch
// does not take.
// Expects x, y; top, sum and upper, of an element for each row; top and upper may be absent; p.count; p.length,
// p.inner, relative, settle and finish, as shaders/normalize.wgsl says, and what they call. An invocation computes one
// element.

fn compute(i: u32) {
  let row = i / (p.inner * p.length) * p.inner + i % p.inner;
  let sum = load_sum(row);
  store_y(i, finish(relative(load_x(i), load_top(row)), sum, settle(sum), load_upper(row)));
}
