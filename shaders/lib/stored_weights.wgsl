// Weights of quantised tensors of 8 bits in words of four, for devices that take longer to load a word than to take it
// apart. lib/centred_weights.wgsl has the same for weights that are packed as f32.
//
// A weight stays where it lies in its word, so that nothing is shifted: column k has 2^8k times the weights, and so
// have the sums of a step, which are as exact. The three lower bytes are unsigned, the highest one is signed.
// Expects w; p.offsets: what the zero point and the change of sign add to each column, as bits of an f32.

const SHIFTED = vec4<f32>(12582912.0, 3221225472.0, 824633720832.0, 211106232532992.0); // 1.5 * 2^(23 + 8k)
const ITS_BITS = vec4<u32>(0x4b400000u, 0x4f400000u, 0x53400000u, 0x57400000u);

fn weight_at(q: u32) -> vec4<f32> {
  let w = load_w(q);
  let parts = vec4<f32>(vec4<i32>(w & 0xff, w & 0xff00, w & 0xff0000, w & -0x1000000));
  return parts - bitcast<vec4<f32>>(p.offsets);
}
