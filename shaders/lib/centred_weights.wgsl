// Weights of quantised tensors that are packed without their zero point, as float16. lib/stored_weights.wgsl has the
// same for weights as they are stored. Expects w.

fn weight_at(q: u32) -> vec4<f32> { return load4_w(q); }
