// Rows of p.N channels in groups of p.OG, of which each has vec4 columns of its own; those of the last column that a
// group does not have are not stored. Expects p.N, p.OG, p.GN (4 x the columns of a group), y, apply.

fn put_channels(row: u32, column: u32, v: vec4<T>) {
  let group = 4u * column / p.GN;
  if (group * p.OG >= p.N) { return; }
  let o = 4u * column - group * p.GN;
  if (o < p.OG) { stores_y(row * p.N + group * p.OG + o, min(p.OG - o, 4u), apply4(v)); }
}
