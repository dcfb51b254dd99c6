// Rows of p.N channels, written four channels at a time; the last four may be fewer.
// Expects p.M (rows), p.N, apply4, store_y, store4_y.

fn put_channels(row: u32, column: u32, v: vec4<T>) {
  let r = apply4(v);
  if (p.N % 4u == 0u) {
    if (column * 4u < p.N) { store4_y(row * (p.N / 4u) + column, r); }
    return;
  }
  let o = column * 4u;
  let i = row * p.N + o;
  if (o < p.N) { store_y(i, r.x); }
  if (o + 1u < p.N) { store_y(i + 1u, r.y); }
  if (o + 2u < p.N) { store_y(i + 2u, r.z); }
  if (o + 3u < p.N) { store_y(i + 3u, r.w); }
}

// Eight rows from m on, of two neighbouring vec4 columns; rows past the end are left out.
fn put_tile(m: u32, n: u32, left: array<vec4<T>, 8>, right: array<vec4<T>, 8>) {
  var l = left;
  var r = right;
  for (var i = 0u; i < 8u; i++) {
    if (m + i < p.M) {
      put_channels(m + i, n, l[i]);
      put_channels(m + i, n + 1u, r[i]);
    }
  }
}
