//!use tiles
// What tiles have in common whose rows a subgroup shares (lib/broadcast_tile.wgsl, lib/broadcast_tile_4.wgsl): where
// rows and weights begin, and how rows are stored. Expects Sums, Start, start(), next_start(), p.N4, p.DEPTH,
// put_channels().

// Where the fourth row behind row m begins. Each step from row to row is cheap to compile and to compute, start() may
// divide.
fn fourth(at: Start, m: u32, end: u32) -> Start {
  return following(following(following(following(at, m + 1u, end), m + 2u, end), m + 3u, end), m + 4u, end);
}

// Where row m begins if there is one, else the row before it.
fn following(before: Start, m: u32, end: u32) -> Start {
  var at = before;
  if (m < end) { at = next_start(before); }
  return at;
}

// Where the weights of a matrix for column n begin.
fn first_weight(matrix: u32, n: u32) -> u32 { return (matrix * p.N4 / 8u + n / 8u) * p.DEPTH * 8u + n % 8u; }

fn put_row(m: u32, end: u32, n: u32, v: vec4<T>) {
  if (m < end) { put_channels(m, n, v); }
}

// Moves the next four sums to where those are that have been stored.
fn advance(sums: ptr<function, Sums>) {
  (*sums)[0] = (*sums)[4];
  (*sums)[1] = (*sums)[5];
  (*sums)[2] = (*sums)[6];
  (*sums)[3] = (*sums)[7];
  (*sums)[4] = (*sums)[8];
  (*sums)[5] = (*sums)[9];
  (*sums)[6] = (*sums)[10];
  (*sums)[7] = (*sums)[11];
  (*sums)[8] = (*sums)[12];
  (*sums)[9] = (*sums)[13];
  (*sums)[10] = (*sums)[14];
  (*sums)[11] = (*sums)[15];
}
