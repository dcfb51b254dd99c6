// Rows of p.N channels, any number, stored four channels at a time; the last four may be fewer. If the number is a
// multiple of 4: lib/rows_of_fours.wgsl. Expects p.N, y, apply.

fn put_channels(row: u32, column: u32, v: vec4<T>) {
  let r = apply4(v);
  let o = column * 4u;
  let i = row * p.N + o;
  if (o < p.N) { store_y(i, r.x); }
  if (o + 1u < p.N) { store_y(i + 1u, r.y); }
  if (o + 2u < p.N) { store_y(i + 2u, r.z); }
  if (o + 3u < p.N) { store_y(i + 3u, r.w); }
}
