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

// What a step adds: the columns of four pixels; four channels of the first or second of them, and of the third or
// fourth.
struct Step { a: Columns, b: Columns, c: Columns, d: Columns, g: vec4<T>, h: vec4<T> }

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

// Adds the products of four pixels to the sums of a row; x: its factors.
fn plus(sums: Columns, x: vec4<T>, s: Step) -> Columns {
  let left = sums.left + x.x * s.a.left + x.y * s.b.left + x.z * s.c.left + x.w * s.d.left;
  if (WIDE == 0u) { return Columns(left, sums.right); }
  return Columns(left, sums.right + x.x * s.a.right + x.y * s.b.right + x.z * s.c.right + x.w * s.d.right);
}

// Adds the products of a step to all sums, row by row: registers hold few of them at a time.
// WGSL wants a constant for the lane of subgroupBroadcast, so no function can serve the four groups of channels.
fn add(sums: ptr<function, Sums>, s: Step) {
  let a = factors(
    subgroupBroadcast(s.g, 0u), subgroupBroadcast(s.g, 4u),
    subgroupBroadcast(s.h, 0u), subgroupBroadcast(s.h, 4u),
  );
  let b = factors(
    subgroupBroadcast(s.g, 1u), subgroupBroadcast(s.g, 5u),
    subgroupBroadcast(s.h, 1u), subgroupBroadcast(s.h, 5u),
  );
  let c = factors(
    subgroupBroadcast(s.g, 2u), subgroupBroadcast(s.g, 6u),
    subgroupBroadcast(s.h, 2u), subgroupBroadcast(s.h, 6u),
  );
  let d = factors(
    subgroupBroadcast(s.g, 3u), subgroupBroadcast(s.g, 7u),
    subgroupBroadcast(s.h, 3u), subgroupBroadcast(s.h, 7u),
  );
  (*sums)[0] = plus((*sums)[0], a[0], s);
  (*sums)[1] = plus((*sums)[1], a[1], s);
  (*sums)[2] = plus((*sums)[2], a[2], s);
  (*sums)[3] = plus((*sums)[3], a[3], s);
  (*sums)[4] = plus((*sums)[4], b[0], s);
  (*sums)[5] = plus((*sums)[5], b[1], s);
  (*sums)[6] = plus((*sums)[6], b[2], s);
  (*sums)[7] = plus((*sums)[7], b[3], s);
  (*sums)[8] = plus((*sums)[8], c[0], s);
  (*sums)[9] = plus((*sums)[9], c[1], s);
  (*sums)[10] = plus((*sums)[10], c[2], s);
  (*sums)[11] = plus((*sums)[11], c[3], s);
  (*sums)[12] = plus((*sums)[12], d[0], s);
  (*sums)[13] = plus((*sums)[13], d[1], s);
  (*sums)[14] = plus((*sums)[14], d[2], s);
  (*sums)[15] = plus((*sums)[15], d[3], s);
}

// The factors of four rows, of four pixels each; a, b, c, d: four channels of each pixel.
fn factors(a: vec4<T>, b: vec4<T>, c: vec4<T>, d: vec4<T>) -> mat4x4<T> { return transpose(mat4x4<T>(a, b, c, d)); }

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

// Adds the products of four pixels from m on; `at` has moved on then. Loads come first: compilers of CPUs put elements
// into vectors one by one, which takes long once registers are full of factors.
fn add_four(tile: Tile, sums: ptr<function, Sums>, at: ptr<function, Pixel>, m: u32, end: u32, channel: u32) {
  let g = two_pixels(tile, m, end, channel);
  let h = two_pixels(tile, m + 2u, end, channel);
  let a = cells_of(tile, at, m, end);
  let b = cells_of(tile, at, m + 1u, end);
  let c = cells_of(tile, at, m + 2u, end);
  let d = cells_of(tile, at, m + 3u, end);
  add(sums, Step(a, b, c, d, g, h));
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
  for (var m = part * p.share; m < end; m += 4u) { add_four(tile, sums, &at, m, end, channel); }
}
