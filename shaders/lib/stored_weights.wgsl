//!use zero_points
// Weights of quantised tensors of 8 bits as they are stored, for devices that take longer to load a word than to
// subtract zero points. lib/centred_weights.wgsl has the same for weights without these. V has four lanes. Expects w.

fn weight_at(q: u32) -> vec4<f32> { return vec4<f32>(weigh(load4_w(q))); }
