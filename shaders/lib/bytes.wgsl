// Four integers of 8 bits and the word that has them, with shifts by constants: SwiftShader takes two to three times as
// long for WGSL's unpack4xU8(), unpack4xI8() and pack4xU8(). lavapipe takes as long for either. lib/bytes_by_reals.wgsl
// has the same without shifts.

fn unsigned_bytes(w: u32) -> vec4<i32> {
  return vec4<i32>(i32(w & 255u), i32((w >> 8u) & 255u), i32((w >> 16u) & 255u), i32(w >> 24u));
}

fn signed_bytes(w: u32) -> vec4<i32> {
  let v = bitcast<i32>(w);
  return vec4<i32>((v << 24u) >> 24u, (v << 16u) >> 24u, (v << 8u) >> 24u, v >> 24u);
}

fn packed_bytes(v: vec4<u32>) -> u32 {
  return (v.x & 255u) | ((v.y & 255u) << 8u) | ((v.z & 255u) << 16u) | (v.w << 24u);
}
