// Weights of quantised tensors that are packed without their zero point, as f32. lib/stored_weights.wgsl has the
// same for weights of 8 bits. Expects w.

const SHIFTED = vec4<f32>(12582912.0); // 1.5 * 2^23
const ITS_BITS = vec4<u32>(0x4b400000u);

fn weight_at(q: u32) -> vec4<f32> { return load4_w(q); }
