//!use requantize
// Results of Winograd's convolution of quantised tensors, from multiples of the sums of products, modulo 2^32: Expects
// UNIT and TWOS, sum = (multiple * UNIT) >> TWOS; what lib/requantize.wgsl expects.

fn result_of(multiple: V, bias: V, by: Ending) -> V {
  return rescaled(((multiple * i32(UNIT)) >> vec4<u32>(TWOS)) + bias, by);
}
