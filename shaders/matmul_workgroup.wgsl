// y[m, n] = apply(bias[n] + sum over k of x[m, k] * w[k, n]), or such a product for each matrix of a stack, with
// operands that a workgroup shares (lib/workgroup_tile.wgsl).
// Expects x [M, K] and y; row_step() of lib/row_steps.wgsl, lib/ragged_row_steps.wgsl or lib/stack_row_steps.wgsl; what
// lib/workgroup_tile.wgsl expects. An invocation computes ROWS rows x 4 COLUMNS channels.

alias Row = u32;

fn row_of(m: u32) -> Row { return place_of_row(m); }

fn four_at(row: Row, k: u32) -> vec4<T> { return row_step(row, k); }
