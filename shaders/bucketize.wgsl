//!use flat ascending nan
// y = how many of the bounds, which ascend, are not above x; NaN is above all.
// Expects x, bound (f32), y; real(x), which gives an f32; p.count, the elements of x; p.bounds, the elements of bound.
// An invocation searches for one element.

fn key(x: f32) -> i32 { return select(ascending(bitcast<i32>(x)), 0x7fffffff, is_nan(x)); }

fn compute(i: u32) {
  let own = key(real(load_x(i)));
  var low = 0u;
  var high = p.bounds;
  while (low < high) {
    let middle = (low + high) / 2u;
    if (key(load_bound(middle)) > own) {
      high = middle;
    } else {
      low = middle + 1u;
    }
  }
  store_y(i, i32(low));
}
