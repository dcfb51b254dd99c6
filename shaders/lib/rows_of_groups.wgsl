// Rows of p.N channels in groups of p.OG, of which each has vec4 columns of its own; those of the last column that a
// group does not have are not stored. Expects p.N, p.OG, p.GN (4 x the columns of a group), y, apply.

fn put_channels(row: u32, column: u32, v: vec4<T>) {
  let r = apply4(v);
  let group = 4u * column / p.GN;
  if (group * p.OG >= p.N) { return; }
  let o = 4u * column - group * p.GN;
  let i = row * p.N + group * p.OG + o;
  if (o < p.OG) { store_y(i, r.x); }
  if (o + 1u < p.OG) { store_y(i + 1u, r.y); }
  if (o + 2u < p.OG) { store_y(i + 2u, r.z); }
  if (o + 3u < p.OG) { store_y(i + 3u, r.w); }
}
