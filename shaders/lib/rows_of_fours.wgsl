// Rows of p.N channels, stored four channels at a time. p.N is a multiple of 4, or there is a single row. One store
// takes four channels, and packed results need no atomics, as they do with lib/rows.wgsl. Expects p.N, y, apply.

fn put_channels(row: u32, column: u32, v: vec4<T>) {
  if (column * 4u < p.N) { store4_y(row * (p.N / 4u) + column, apply4(v)); }
}
