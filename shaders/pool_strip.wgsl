//!use cells flat
// A pool over height and width, whose windows lie side by side along one of the two axes: finish(s, n), where s
// combines start() with all cells of the window inside the input, and n is the number of these cells.
// Expects x and y, images of pixels of C V's; p.x_pitch and p.x_first, where pixels of x begin; start(), enter(v),
// combine(s, v), where combine(s, start()) is s, finish(s, n); p.along and p.across, for that axis and the other one
// each (extent of x, of y, size of the window, cells of it before x); p.stride, along the other one; p.x_step and
// p.y_step, pixels of x and y from place to place (along the axis, along the other one, from image to image); p.strips,
// along the axis; p.C; p.count, the V's of all strips. An invocation computes four places of one V of channels; each
// cell that it loads is in up to four windows.

fn seen(line: u32, place: u32, c: u32) -> V {
  let inside = place < u32(p.along.x);
  let pixel = select(0u, line + place * u32(p.x_step.x), inside);
  return select(startv(), enterv(loadv_x(pixel * p.x_pitch + p.x_first + c)), inside);
}

fn compute(i: u32) {
  let strip = i / p.C;
  let c = i - strip * p.C;
  let line = strip / p.strips;
  let image = line / u32(p.across.y);
  let other = line - image * u32(p.across.y);
  let place = 4u * (strip - line * p.strips);
  let left = place - u32(p.along.w);
  let top = other * p.stride - u32(p.across.w);
  let width = end_of_loop(u32(p.along.z), place < u32(p.along.y));
  let height = end_of_loop(u32(p.across.z), place < u32(p.along.y));
  var s0 = startv();
  var s1 = s0;
  var s2 = s0;
  var s3 = s0;
  for (var row = 0u; row < height; row++) {
    if (top + row < u32(p.across.x)) {
      let begin = image * u32(p.x_step.z) + (top + row) * u32(p.x_step.y);
      var v0 = seen(begin, left, c);
      var v1 = seen(begin, left + 1u, c);
      var v2 = seen(begin, left + 2u, c);
      for (var column = 0u; column < width; column++) {
        let v3 = seen(begin, left + column + 3u, c);
        s0 = combinev(s0, v0);
        s1 = combinev(s1, v1);
        s2 = combinev(s2, v2);
        s3 = combinev(s3, v3);
        v0 = v1;
        v1 = v2;
        v2 = v3;
      }
    }
  }
  let rows = inside(top, u32(p.across.z), u32(p.across.x));
  let pixel = image * u32(p.y_step.z) + other * u32(p.y_step.y) + place * u32(p.y_step.x);
  put(pixel, place, left, rows, c, s0);
  put(pixel + u32(p.y_step.x), place + 1u, left + 1u, rows, c, s1);
  put(pixel + 2u * u32(p.y_step.x), place + 2u, left + 2u, rows, c, s2);
  put(pixel + 3u * u32(p.y_step.x), place + 3u, left + 3u, rows, c, s3);
}

fn put(pixel: u32, place: u32, left: u32, rows: u32, c: u32, s: V) {
  if (place < u32(p.along.y)) {
    let cells = rows * inside(left, u32(p.along.z), u32(p.along.x));
    storev_y(pixel * p.C + c, applyv(finishv(s, V(T(cells)))));
  }
}
