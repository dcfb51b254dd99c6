//!use real_tile real_sums column_blocks
// y[m, n] = apply(bias[n] + sum over k of x[m, k] * w[k, n]), as a register-tiled product (lib/register_tile.wgsl).
// Expects w in blocks of columns (lib/column_blocks.wgsl); p.K4, the steps of a row; row_step() of lib/row_steps.wgsl,
// lib/ragged_row_steps.wgsl or lib/row_elements.wgsl; lib/matrix_steps.wgsl, lib/matrix_column_steps.wgsl or
// lib/single_steps.wgsl, which multiply steps; what lib/register_tile.wgsl expects; begins_from(m), place_of_row() of
// the rows from m on. An invocation computes ROWS rows x COLUMNS vec4 columns.

fn add_products(sums: ptr<function, Sums>, m: u32, n: u32, split: u32) {
  add_depth(sums, begins_from(m), p.K4, first_weight(n), split);
}

fn factor_at(row: u32, k: u32) -> Factor { return row_step(row, k); }
