// The box of a rotated crop around points (gpunn/ops/vision/warp.py).
// Expects points [2 and more, p.width], x and y first; p.cosine, p.sine of the angle that the direction from point 0 to
// point 1 is turned to; p.half_turn (1: or the opposite one, for a direction against x); p.first.x and p.end.x, the
// points behind these two to look at; before, the box of the points before, or absent.

fn point(k: u32) -> vec2<f32> { return vec2<f32>(load_points(k * p.width), load_points(k * p.width + 1u)); }

// The direction that becomes the x axis.
fn turned_axis() -> vec2<f32> {
  var way = point(1u) - point(0u);
  if (p.half_turn == 1u && way.x < 0.0) { way = -way; }
  let far = max(abs(way.x), abs(way.y));
  if (far > 0.0) {
    way /= far; // so that squares neither overflow nor vanish
    way /= sqrt(dot(way, way));
  } else {
    way = vec2<f32>(1.0, 0.0);
  }
  return vec2<f32>(p.cosine * way.x + p.sine * way.y, p.sine * way.x - p.cosine * way.y);
}

// Left, lower, right and upper end of the box, in the turned axes.
fn box_around(turn: vec2<f32>) -> vec4<f32> {
  var low = vec2<f32>(load_before(0u), load_before(1u));
  var high = vec2<f32>(load_before(2u), load_before(3u));
  for (var k = u32(p.first.x); k < u32(p.end.x); k++) {
    let at = point(2u + k);
    let turned = vec2<f32>(at.x * turn.x - at.y * turn.y, at.x * turn.y + at.y * turn.x);
    low = select(min(low, turned), turned, k == 0u);
    high = select(max(high, turned), turned, k == 0u);
  }
  return vec4<f32>(low, high);
}
