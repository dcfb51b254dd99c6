//!use flat axis_by_axis
// y = x moved around along its axes, in up to eight dimensions.
// Expects lib/each.wgsl or lib/each_of_four.wgsl; p.before, the elements that come to the front; what
// lib/axis_by_axis.wgsl expects.

fn came_from(at: vec4<u32>, before: vec4<i32>, extent: vec4<i32>) -> vec4<u32> {
  let place = vec4<i32>(at) - before;
  return vec4<u32>(select(place, place + extent, place < vec4<i32>(0)));
}
