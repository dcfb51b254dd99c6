// The functions of lib/bytes.wgsl for devices that shift the elements of a vector one by one, as SwiftShader does: a
// shift takes it ten times as long as a product or a conversion. A byte where it lies in its word is a number whose f32
// is exact, and so is this f32 divided by a power of two.

fn unsigned_bytes(w: u32) -> vec4<i32> {
  let v = bitcast<i32>(w);
  return vec4<i32>(bytes_down(v)) & vec4<i32>(255);
}

fn signed_bytes(w: u32) -> vec4<i32> {
  return vec4<i32>(bytes_down(bitcast<i32>(w) ^ 0x808080)) - vec4<i32>(128, 128, 128, 0);
}

// The bytes of a word, the highest one with its sign.
fn bytes_down(v: i32) -> vec4<f32> {
  let parts = vec4<f32>(vec4<i32>(v & 0xff, v & 0xff00, v & 0xff0000, v & -0x1000000));
  return parts * vec4<f32>(1.0, 0.00390625, 0.0000152587890625, 0.000000059604644775390625);
}

fn packed_bytes(v: vec4<u32>) -> u32 {
  return (v.x & 255u) | (v.y & 255u) * 0x100u | (v.z & 255u) * 0x10000u | v.w * 0x1000000u;
}
