// Four columns of a matrix that lie in one vector, of a matrix whose rows are whole vectors.
// Expects b, y; p.N, the elements of a row of y.

// The columns from element `at` on; n is the first.
fn four_b(at: u32, n: u32) -> V { return load4_b(at / 4u); }

// Stores them in row m from column n on.
fn keep(m: u32, n: u32, sum: V) { store4_y((m * p.N + n) / 4u, sum); }
