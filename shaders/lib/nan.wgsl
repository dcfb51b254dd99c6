// NaN by its bits: compilers may assume that there is none when they compare and compute numbers.

fn is_nan(x: f32) -> bool { return (bitcast<u32>(x) & 0x7fffffffu) > 0x7f800000u; }

// NaN, through a variable: WGSL refuses constants that are not finite.
fn undefined() -> f32 { var bits = 0x7fc00000u; return bitcast<f32>(bits); }
