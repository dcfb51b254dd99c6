// Rows of p.N channels, a number divisible by 4 or of a single row, written four channels at a time: one store
// each, and packed results need no atomics, as they do in lib/rows.wgsl. Expects p.N, apply4, store4_y.

fn put_channels(row: u32, column: u32, v: vec4<T>) {
  if (column * 4u < p.N) { store4_y(row * (p.N / 4u) + column, apply4(v)); }
}
