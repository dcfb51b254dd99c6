// Rows of p.N channels, any number, stored four channels at a time; the last four may be fewer. If the number is a
// multiple of 4: lib/rows_of_fours.wgsl. Expects p.N, y, apply.

fn put_channels(row: u32, column: u32, v: vec4<T>) {
  let o = column * 4u;
  if (o < p.N) { stores_y(row * p.N + o, min(p.N - o, 4u), apply4(v)); }
}
