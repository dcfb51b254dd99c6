//!use grid pixels
// The gradient of a convolution with respect to its filter, over a part of the output pixels, as products of subgroups
// of eight: a subgroup computes 16 rows, output channels, x 64 columns, input channels of a cell.
// Expects x [batch, H, W, 4 N4], g [batch, OH, OW, p.N] and y [parts, p.N, KH, KW, 4 N4]; 4 divides p.N; p.ROWS, p.N
// rounded up to a multiple of 16; p.CELLS (KH * KW), p.KW; p.SIZE (elements of a part of y); p.N4 (vec4 columns);
// p.ACROSS (tiles side by side); p.count (invocations of all tiles); POINTWISE (1: a pixel sees the one at its own
// place); WIDE (1: an invocation has two vec4 columns, else one); what lib/pixels.wgsl expects. Rows of tiles count
// output channels up to p.ROWS, then cells, then parts. An invocation computes 16 rows x 8 columns, two vec4s that are
// eight apart, in registers. It loads four channels of g, and broadcasts them: the first four of a subgroup those of a
// pixel, the others those of the next one. Loads are what takes the time on software.

const GROUP: u32 = 8u; // invocations of a subgroup

struct Columns { left: vec4<T>, right: vec4<T> }
alias Sums = array<Columns, 16>;

// The factors of the 16 rows that an invocation loads, or that all of a subgroup have.
struct Factors { a: vec4<T>, b: vec4<T>, c: vec4<T>, d: vec4<T> }

// The first row and the first vec4 column; `left` and `right` are columns to load from, which lie inside.
struct Tile { number: u32, lane: u32, m: u32, n: u32, left: u32, right: u32 }

@compute @workgroup_size(WX, WY, WZ)
fn main(
  at: Invocation,
  @builtin(subgroup_id) group: u32,
  @builtin(subgroup_invocation_id) lane: u32,
) {
  let number = workgroup_number(at) * (WX / GROUP) + group;
  let down = number / p.ACROSS;
  let n = (number - down * p.ACROSS) * GROUP * (1u + WIDE) + lane;
  let tile = Tile(number, lane, down * 16u, n, min(n, p.N4 - 1u), min(n + GROUP, p.N4 - 1u));
  let start = Columns();
  var sums = Sums(
    start, start, start, start, start, start, start, start, start, start, start, start, start, start, start, start,
  );
  add_products(tile, &sums);
  if (number * GROUP >= p.count) { return; }
  put_row(tile, 0u, sums[0]);
  put_row(tile, 1u, sums[1]);
  put_row(tile, 2u, sums[2]);
  put_row(tile, 3u, sums[3]);
  put_row(tile, 4u, sums[4]);
  put_row(tile, 5u, sums[5]);
  put_row(tile, 6u, sums[6]);
  put_row(tile, 7u, sums[7]);
  put_row(tile, 8u, sums[8]);
  put_row(tile, 9u, sums[9]);
  put_row(tile, 10u, sums[10]);
  put_row(tile, 11u, sums[11]);
  put_row(tile, 12u, sums[12]);
  put_row(tile, 13u, sums[13]);
  put_row(tile, 14u, sums[14]);
  put_row(tile, 15u, sums[15]);
}

fn put_row(tile: Tile, k: u32, sums: Columns) {
  if (tile.n < p.N4) { finish(tile.m + k, tile.n, sums.left); }
  if (WIDE == 1u && tile.n + GROUP < p.N4) { finish(tile.m + k, tile.n + GROUP, sums.right); }
}

fn plus(sums: Columns, x: T, w: Columns) -> Columns {
  if (WIDE == 0u) { return Columns(sums.left + x * w.left, sums.right); }
  return Columns(sums.left + x * w.left, sums.right + x * w.right);
}

// Adds one product to all sums.
fn step(sums: ptr<function, Sums>, x: Factors, w: Columns) {
  (*sums)[0] = plus((*sums)[0], x.a.x, w);
  (*sums)[1] = plus((*sums)[1], x.a.y, w);
  (*sums)[2] = plus((*sums)[2], x.a.z, w);
  (*sums)[3] = plus((*sums)[3], x.a.w, w);
  (*sums)[4] = plus((*sums)[4], x.b.x, w);
  (*sums)[5] = plus((*sums)[5], x.b.y, w);
  (*sums)[6] = plus((*sums)[6], x.b.z, w);
  (*sums)[7] = plus((*sums)[7], x.b.w, w);
  (*sums)[8] = plus((*sums)[8], x.c.x, w);
  (*sums)[9] = plus((*sums)[9], x.c.y, w);
  (*sums)[10] = plus((*sums)[10], x.c.z, w);
  (*sums)[11] = plus((*sums)[11], x.c.w, w);
  (*sums)[12] = plus((*sums)[12], x.d.x, w);
  (*sums)[13] = plus((*sums)[13], x.d.y, w);
  (*sums)[14] = plus((*sums)[14], x.d.z, w);
  (*sums)[15] = plus((*sums)[15], x.d.w, w);
}

// Stores four sums of a row, if it is an output channel.
fn finish(row: u32, n: u32, sum: vec4<T>) {
  let block = row / p.ROWS;
  let channel = row - block * p.ROWS;
  let part = block / p.CELLS;
  if (channel < p.N) {
    store4_y(part * (p.SIZE / 4u) + (channel * p.CELLS + block - part * p.CELLS) * p.N4 + n, sum);
  }
}

// The cells that a pixel sees; zeros outside, and past the end of the part.
fn cells(tile: Tile, pixel: u32, inside: bool) -> Columns {
  let q = select(0u, pixel * p.N4, inside);
  let left = select(vec4<T>(), load4_x(q + tile.left), inside);
  if (WIDE == 0u) { return Columns(left, vec4<T>()); }
  return Columns(left, select(vec4<T>(), load4_x(q + tile.right), inside));
}

// Four channels of pixel m, or of the next one.
fn two_pixels(tile: Tile, m: u32, end: u32, channel: u32) -> vec4<T> {
  return load4_g(min(m + tile.lane / 4u, end - 1u) * (p.N / 4u) + channel);
}

fn factors_now(g: vec4<T>) -> Factors {
  return Factors(
    subgroupBroadcast(g, 0u), subgroupBroadcast(g, 1u), subgroupBroadcast(g, 2u), subgroupBroadcast(g, 3u),
  );
}

fn factors_next(g: vec4<T>) -> Factors {
  return Factors(
    subgroupBroadcast(g, 4u), subgroupBroadcast(g, 5u), subgroupBroadcast(g, 6u), subgroupBroadcast(g, 7u),
  );
}

// Adds the products of pixel m, and of the next one; `at` has moved on then.
fn add_two(tile: Tile, sums: ptr<function, Sums>, at: ptr<function, Pixel>, m: u32, end: u32, channel: u32) {
  let g = two_pixels(tile, m, end, channel);
  step(sums, factors_now(g), cells_of(tile, at, m, end));
  step(sums, factors_next(g), cells_of(tile, at, m + 1u, end));
}

fn cells_of(tile: Tile, at: ptr<function, Pixel>, m: u32, end: u32) -> Columns {
  if (POINTWISE == 1u) { return cells(tile, m, m < end); }
  let seen = seen_pixel(*at);
  *at = next_pixel(*at);
  return cells(tile, seen, seen != OUTSIDE && m < end);
}

fn add_products(tile: Tile, sums: ptr<function, Sums>) {
  let block = tile.m / p.ROWS;
  let part = block / p.CELLS;
  let tap = block - part * p.CELLS;
  let ky = tap / p.KW;
  let end = min((part + 1u) * p.share, p.M);
  var at = first_pixel(part * p.share, ky * p.DH, (tap - ky * p.KW) * p.DW);
  let channel = min((tile.m - block * p.ROWS) / 4u + tile.lane % 4u, p.N / 4u - 1u);
  for (var m = part * p.share; m < end; m += 8u) {
    add_two(tile, sums, &at, m, end, channel);
    add_two(tile, sums, &at, m + 2u, end, channel);
    add_two(tile, sums, &at, m + 4u, end, channel);
    add_two(tile, sums, &at, m + 6u, end, channel);
  }
}
