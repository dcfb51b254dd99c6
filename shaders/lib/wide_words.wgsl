// Four words in memory as two of 64 bits, for software that has these (gpunn/device.py). u64 is naga's extension of
// WGSL.

fn two_words(wide: u64) -> vec2<u32> { return vec2<u32>(u32(wide), u32(wide >> 32u)); }

fn four_words(wide: vec2<u64>) -> vec4<u32> { return vec4<u32>(two_words(wide.x), two_words(wide.y)); }

fn wide_word(low: u32, high: u32) -> u64 { return u64(low) | (u64(high) << 32u); }

fn wide_words(v: vec4<u32>) -> vec2<u64> { return vec2<u64>(wide_word(v.x, v.y), wide_word(v.z, v.w)); }
