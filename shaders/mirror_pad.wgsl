//!use flat axis_by_axis
// y = x with its mirror image around it, in up to eight dimensions.
// Expects lib/each.wgsl or lib/each_of_four.wgsl; p.edge (1: the border is repeated, 0: it is not); p.before, the
// elements in front; what lib/axis_by_axis.wgsl expects.

fn came_from(at: vec4<u32>, before: vec4<i32>, extent: vec4<i32>) -> vec4<u32> {
  let edge = vec4<i32>(i32(p.edge));
  let inside = vec4<i32>(at) - before;
  let unfolded = select(inside, -inside - edge, inside < vec4<i32>(0));
  return vec4<u32>(select(unfolded, 2 * extent - 2 + edge - unfolded, unfolded >= extent));
}
