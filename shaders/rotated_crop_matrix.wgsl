//!use flat crop_box
// y = the matrix [4, 4] from pixels of a crop to an image, for a box around points in turned axes.
// Expects y; p.count, 1; p.scale_x, p.scale_y, p.origin_x, p.origin_y, p.stretch_x, p.stretch_y; what lib/crop_box.wgsl
// expects. One invocation computes all.

fn put_row(row: u32, v: vec4<f32>) {
  for (var k = 0u; k < 4u; k++) { store_y(4u * row + k, v[k]); }
}

fn compute(i: u32) {
  let turn = turned_axis();
  let box = box_around(turn);
  let low = box.xy;
  let high = box.zw;
  let side = (high - low) * vec2<f32>(p.scale_x, p.scale_y);
  let middle = (low + high) * 0.5;
  let first = vec2<f32>(turn.x, turn.y);
  let second = vec2<f32>(-turn.y, turn.x);
  let origin = vec2<f32>(p.origin_x, p.origin_y);
  let x = vec3<f32>(first * side, dot(first, middle) - dot(first * side, origin)) * p.stretch_x;
  let y = vec3<f32>(second * side, dot(second, middle) - dot(second * side, origin)) * p.stretch_y;
  put_row(0u, vec4<f32>(x.xy, 0.0, x.z));
  put_row(1u, vec4<f32>(y.xy, 0.0, y.z));
  put_row(2u, vec4<f32>(0.0, 0.0, 1.0, 0.0));
  put_row(3u, vec4<f32>(0.0, 0.0, 0.0, 1.0));
}
