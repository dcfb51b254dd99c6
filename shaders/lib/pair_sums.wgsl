// Sums of two quantised tensors of 8 bits (gpunn/ops/fixed_point/pair_sums.py, IntegerSums, which proves that they have
// the bits of fixed point).

// by.x * a + by.y * b + by.z, in steps of the result: a whole number, for by.w masks the fraction, and `unit` is the
// power of two that brings the rest down. At most 11 bits are left, so the f32 is exact.
fn pair_sum(a: i32, b: i32, by: vec4<i32>, unit: f32) -> f32 { return f32((by.x * a + by.y * b + by.z) & by.w) * unit; }
