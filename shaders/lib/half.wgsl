// Numbers as float16: rounded to nearest, ties to even; infinite from 65520 on; NaN stays NaN. pack2x16float() may
// round either way and is undefined beyond the range of float16. So this is integer arithmetic: it gives numpy's bits
// on every driver. Subnormal numbers of float32 count as 0, which they round to.

fn half_bits(v: vec4<f32>) -> vec4<u32> {
  let bits = bitcast<vec4<u32>>(v);
  let size = bits & vec4<u32>(0x7fffffffu);
  // The exponent's bias changes from 127 to 15, and the fraction loses 13 bits.
  let odd = (size >> vec4<u32>(13u)) & vec4<u32>(1u);
  let normal = (size + odd - vec4<u32>(0x37fff001u)) >> vec4<u32>(13u);
  // Below 2^-14 the steps are 2^-24, as those of float32 are between 1/2 and 1.
  let small = bitcast<vec4<u32>>(bitcast<vec4<f32>>(size) + vec4<f32>(0.5)) - vec4<u32>(0x3f000000u);
  var half = select(normal, small, size < vec4<u32>(0x38800000u));
  half = select(half, vec4<u32>(0x7c00u), size >= vec4<u32>(0x477ff000u));
  half = select(half, vec4<u32>(0x7e00u), size > vec4<u32>(0x7f800000u));
  return half | ((bits >> vec4<u32>(16u)) & vec4<u32>(0x8000u));
}

// Four numbers in two words.
fn half_words(v: vec4<f32>) -> vec2<u32> {
  let half = half_bits(v);
  return half.xz | (half.yw << vec2<u32>(16u));
}

// Four numbers, or one, as float16 holds them.
fn held_half4(v: vec4<f32>) -> vec4<f32> {
  let words = half_words(v);
  return vec4<f32>(unpack2x16float(words.x), unpack2x16float(words.y));
}

fn held_half(v: f32) -> f32 { return held_half4(vec4<f32>(v)).x; }
