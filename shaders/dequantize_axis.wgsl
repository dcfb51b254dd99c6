//!use flat
// y = scale[c] * (x - zero[c]), where c is the index of an element along an axis.
// Expects x; scale and zero, one entry for each index along the axis; y; p.inner, the elements between neighbours
// along the axis; p.length, its extent; p.count, the elements of y. An invocation computes one element.

fn compute(i: u32) {
  let c = i / p.inner % p.length;
  store_y(i, load_scale(c) * f32(load_x(i) - load_zero(c)));
}
