//!use real_tile
// Steps of one element of the depth in a register tile (lib/register_tile.wgsl). Expects w [K, 4 N4]; the functions of
// lib/one_column.wgsl or lib/two_columns.wgsl.

const STEP: u32 = 1u;

alias Factor = T;
alias Weights = Columns;

fn weights_at(q: u32) -> Weights { return weight_columns(q); }

fn multiply_add(row: Row, w: Weights, x: Factor) -> Row { return added_product(row, w, x); }
