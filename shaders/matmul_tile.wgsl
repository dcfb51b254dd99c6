//!use matrix_steps
// y[m, n] = apply(bias[n] + sum over k of x[m, k] * w[k, n]), as a register-tiled product (lib/register_tile.wgsl).
// Expects w [4 K4, 4 N4] and bias [4 N4] with channels padded to N4, an even number; p.K4, the steps of a row;
// row_step() of lib/row_steps.wgsl or lib/ragged_row_steps.wgsl; what lib/register_tile.wgsl expects. An invocation
// computes 8 rows x 8 channels, four elements of the depth in a step.

fn add_products(sums: ptr<function, Sums>, m: u32, n: u32, split: u32) {
  let last = p.M - 1u;
  let rows = array<u32, 8>(
    place_of_row(m),
    place_of_row(min(m + 1u, last)),
    place_of_row(min(m + 2u, last)),
    place_of_row(min(m + 3u, last)),
    place_of_row(min(m + 4u, last)),
    place_of_row(min(m + 5u, last)),
    place_of_row(min(m + 6u, last)),
    place_of_row(min(m + 7u, last)),
  );
  add_depth(sums, rows, Depth(0u, p.K4), n, split);
}

fn factor_at(row: u32, first: u32, k: u32) -> vec4<T> { return row_step(row, k); }
