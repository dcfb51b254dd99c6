// Complex numbers: the real part in x, the imaginary part in y.

alias C64 = vec2<f32>;

fn c64_multiply(a: C64, b: C64) -> C64 { return C64(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x); }
