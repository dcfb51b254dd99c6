// Four numbers of 16 bits, of the two words that have them. The words are parameters, so that both are one load, of 64
// bits: written out with an index for each, they are two to wgpu, which checks both.

fn four_halves(words: vec2<u32>) -> vec4<f32> {
  return vec4<f32>(unpack2x16float(words.x), unpack2x16float(words.y));
}

fn four_shorts(words: vec2<u32>) -> vec4<i32> {
  return vec4<i32>(vec4<u32>(words.x << 16u, words.x, words.y << 16u, words.y)) >> vec4<u32>(16u);
}
