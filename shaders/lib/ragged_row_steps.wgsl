// Steps of four along rows of x whose length is not divisible by 4: the last step has zeros behind the end of its row,
// and not what the next row begins with, which may be infinite or NaN. Expects x [M, K]; p.K; p.x_pitch
// and p.x_first, where its rows begin.
// lib/row_steps.wgsl has the same functions for rows whose length is divisible by 4.

fn place_of_row(m: u32) -> u32 { return m * p.x_pitch + p.x_first; }

fn row_step(place: u32, k: u32) -> vec4<T> {
  let i = place + 4u * k;
  let rest = p.K - 4u * k;
  if (rest >= 4u) { return vec4<T>(load_x(i), load_x(i + 1u), load_x(i + 2u), load_x(i + 3u)); }
  var x = vec4<T>();
  for (var c = 0u; c < rest; c++) { x[c] = load_x(i + c); }
  return x;
}
