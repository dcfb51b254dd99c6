// Four columns of a matrix that lie in one vector, of a matrix whose rows are whole vectors. Expects b.
// lib/columns_apart.wgsl has the same function for any columns.

// The columns from element `at` on; n is the first.
fn four_b(at: u32, n: u32) -> vec4<T> { return load4_b(at / 4u); }
