// The first of the sorted updates of a row, from a list of all rows (shaders/row_begins.wgsl).
// Expects begins.

fn before(row: i32) -> u32 { return u32(load_begins(u32(row))); }
