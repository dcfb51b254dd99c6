//!use workgroup_halves
// Products in f16 (lib/workgroup_halves.wgsl) of two operands whose range is not known. A workgroup first looks for the
// largest finite number of each row and of each channel of its tile. Then it scales them by powers of two, as it brings
// them into its memory: the largest of a row to between 128 and 256, of a channel to between 8 and 16.
// Expects SIDE of 64, so that an invocation brings one row; bias [4 N4]; what lib/workgroup_tile.wgsl expects.

const ROW_EXPONENT: i32 = 7; // of the largest number of a row once it is scaled
const CHANNEL_EXPONENT: i32 = 3;

// The bits of the largest numbers of each row and of each channel.
var<workgroup> row_tops: array<atomic<u32>, 64>;
var<workgroup> channel_tops: array<atomic<u32>, 64>;

// What an invocation multiplies a row with, and weights of four channels.
struct Loader { row: f32, channels: vec4<f32> }

// Each invocation looks at what it will bring. All of a workgroup must call it.
fn loader_of(i: u32, row: Row, column: Column) -> Loader {
  begin_steps(i);
  if (i < 64u) {
    atomicStore(&row_tops[i], 0u);
    atomicStore(&channel_tops[i], 0u);
  }
  workgroupBarrier();
  var of_row = vec4<u32>();
  var of_channels = vec4<u32>();
  for (var k = 0u; k < p.K4; k += FOURS) {
    of_row = max(of_row, sizes(four_of(row, k + i % FOURS)));
    of_channels = max(of_channels, sizes(weights_of(column, 4u * k + i / 16u)));
  }
  let place = i % 16u * 4u;
  atomicMax(&row_tops[i / FOURS], max(max(of_row.x, of_row.y), max(of_row.z, of_row.w)));
  atomicMax(&channel_tops[place], of_channels.x);
  atomicMax(&channel_tops[place + 1u], of_channels.y);
  atomicMax(&channel_tops[place + 2u], of_channels.z);
  atomicMax(&channel_tops[place + 3u], of_channels.w);
  workgroupBarrier();
  return Loader(
    two_to(vec4<i32>(ROW_EXPONENT - row_exponent(i / FOURS))).x,
    two_to(CHANNEL_EXPONENT - channel_exponents(place)),
  );
}

// The bits of absolute values; 0 for infinities and NaN.
fn sizes(v: vec4<T>) -> vec4<u32> {
  let bits = bitcast<vec4<u32>>(v) & vec4<u32>(0x7fffffffu);
  return select(bits, vec4<u32>(), bits >= vec4<u32>(0x7f800000u));
}

// The exponents of f32s by their bits, at least -119: so no power of two that is needed leaves the normal numbers.
fn exponents(bits: vec4<u32>) -> vec4<i32> { return vec4<i32>(max(bits >> vec4<u32>(23u), vec4<u32>(8u))) - 127; }

fn row_exponent(m: u32) -> i32 { return exponents(vec4<u32>(atomicLoad(&row_tops[m]))).x; }

fn channel_exponents(place: u32) -> vec4<i32> {
  return exponents(vec4<u32>(
    atomicLoad(&channel_tops[place]),
    atomicLoad(&channel_tops[place + 1u]),
    atomicLoad(&channel_tops[place + 2u]),
    atomicLoad(&channel_tops[place + 3u]),
  ));
}

// 2^e for e from -126 to 127.
fn two_to(e: vec4<i32>) -> vec4<f32> { return bitcast<vec4<f32>>(vec4<u32>(e + 127) << vec4<u32>(23u)); }

fn hold_row(v: vec4<T>, load: u32, loader: ptr<function, Loader>, step: u32) -> Held {
  return hold(v * (*loader).row, step);
}

fn hold_weights(v: vec4<T>, loader: ptr<function, Loader>, step: u32) -> Held {
  return hold(v * (*loader).channels, step);
}

// The sums of a cell, whose channels are n, scaled back, with their bias. In two steps: the power of two of both
// scales may be beyond f32 where the result is not.
fn total(cell: Cell, n: u32, sum: vec4<T>) -> vec4<T> {
  let back = channel_exponents(cell.column * 4u) + (row_exponent(cell.row) - ROW_EXPONENT - CHANNEL_EXPONENT);
  let half = back >> vec4<u32>(1u);
  return sum * two_to(half) * two_to(back - half) + load4_bias(n);
}
