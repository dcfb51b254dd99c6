//!use flat coords
// y = x with its mirror image around it, in up to eight dimensions.
// Expects x; lib/each.wgsl or lib/each_of_four.wgsl; p.edge (1: the border is repeated, 0: it is not); p.before
// (elements in front), p.extent (of x), p.x_stride, each with a _hi, innermost counted in V's; what lib/coords.wgsl
// expects.

fn mirrored(at: vec4<u32>, before: vec4<i32>, extent: vec4<i32>) -> vec4<u32> {
  let edge = vec4<i32>(i32(p.edge));
  let inside = vec4<i32>(at) - before;
  let unfolded = select(inside, -inside - edge, inside < vec4<i32>(0));
  return vec4<u32>(select(unfolded, 2 * extent - 2 + edge - unfolded, unfolded >= extent));
}

fn element(i: u32) -> V {
  let y = coords(i);
  let x = Coords(
    mirrored(y.low, p.before, p.extent),
    mirrored(y.high, p.before_hi, p.extent_hi),
  );
  return loadv_x(along(x, p.x_stride, p.x_stride_hi));
}
