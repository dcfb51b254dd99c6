// Whether x is NaN, by its bits: compilers may assume that there is no NaN when they compare numbers.
fn is_nan(x: f32) -> bool { return (bitcast<u32>(x) & 0x7fffffffu) > 0x7f800000u; }
