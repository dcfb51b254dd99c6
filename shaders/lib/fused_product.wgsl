// A sum of reals with one more product. Mesa 26 compiles fma() to one instruction that rounds once, and w * x + sum to
// two. Older versions and SwiftShader make the same of both.

fn plus_product(sum: vec4<f32>, w: vec4<f32>, x: f32) -> vec4<f32> { return fma(w, vec4<f32>(x), sum); }
