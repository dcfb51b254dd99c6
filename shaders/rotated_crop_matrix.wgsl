//!use flat
// y = the matrix [4, 4] from pixels of a crop to an image, for a box around points in turned axes.
// Expects points [p.points, p.width], x and y first, y; p.count, 1; p.cosine, p.sine of the angle that the direction
// from point 0 to point 1 is turned to; p.half_turn (1: or the opposite one, for a direction against x); p.scale_x,
// p.scale_y, p.origin_x, p.origin_y, p.stretch_x, p.stretch_y. One invocation computes all.

fn point(k: u32) -> vec2<f32> { return vec2<f32>(load_points(k * p.width), load_points(k * p.width + 1u)); }

fn put_row(row: u32, v: vec4<f32>) {
  for (var k = 0u; k < 4u; k++) { store_y(4u * row + k, v[k]); }
}

fn compute(i: u32) {
  var way = point(1u) - point(0u);
  if (p.half_turn == 1u && way.x < 0.0) { way = -way; }
  let far = max(abs(way.x), abs(way.y));
  if (far > 0.0) {
    way /= far; // so that squares neither overflow nor vanish
    way /= sqrt(dot(way, way));
  } else {
    way = vec2<f32>(1.0, 0.0);
  }
  let turn = vec2<f32>(p.cosine * way.x + p.sine * way.y, p.sine * way.x - p.cosine * way.y);
  var low = vec2<f32>();
  var high = vec2<f32>();
  for (var k = 2u; k < p.points; k++) {
    let at = point(k);
    let turned = vec2<f32>(at.x * turn.x - at.y * turn.y, at.x * turn.y + at.y * turn.x);
    low = select(min(low, turned), turned, k == 2u);
    high = select(max(high, turned), turned, k == 2u);
  }
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
