//!use flat coords
// y = x moved around along its axes, in up to eight dimensions.
// Expects x; lib/each.wgsl or lib/each_of_four.wgsl; p.before (elements that come to the front), p.extent, p.x_stride,
// each with a _hi, innermost counted in V's; what lib/coords.wgsl expects.

fn moved(at: vec4<u32>, before: vec4<i32>, extent: vec4<i32>) -> vec4<u32> {
  let place = vec4<i32>(at) - before;
  return vec4<u32>(select(place, place + extent, place < vec4<i32>(0)));
}

fn element(i: u32) -> V {
  let y = coords(i);
  let x = Coords(
    moved(y.low, p.before, p.extent),
    moved(y.high, p.before_hi, p.extent_hi),
  );
  return loadv_x(along(x, p.x_stride, p.x_stride_hi));
}
