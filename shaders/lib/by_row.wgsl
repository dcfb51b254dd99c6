// Updates in the order of their rows (gpunn/ops/kernels/by_row.py).
// Expects keys (in this order the row of each update, as lib/order.wgsl makes it). before(row) of lib/row_search.wgsl
// or lib/row_begins.wgsl is the number of the first update of a row; if it has none, that of another row, or of none.

fn row_at(k: u32) -> i32 { return ~load_keys(k); }
