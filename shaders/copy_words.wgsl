//!use flat coords
// y[y_start + i] = apply(x[x_start + at . x_stride]) for element i of a space of up to eight dimensions, and the point
// `at` where it lies: y is dense, but its rows do not begin with words of four elements.
// Expects x, y; p.count, the fours of y; p.x_start, p.x_stride with a _hi; p.y_start, counted in fours; what
// lib/coords.wgsl expects. An invocation copies four elements.

fn element(at: Coords) -> T { return apply(load_x(p.x_start + along(at, p.x_stride, p.x_stride_hi))); }

fn compute(i: u32) {
  let first = coords(4u * i);
  let second = next_coords(first);
  let third = next_coords(second);
  storev_y(p.y_start + i, V(element(first), element(second), element(third), element(next_coords(third))));
}
