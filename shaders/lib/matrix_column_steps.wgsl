//!use matrices one_column
// Steps of lib/matrices.wgsl for one column.

alias Weights = mat4x4<T>;

fn weights_at(q: u32) -> Weights { return matrix_at(q); }

fn multiply_add(row: Row, w: Weights, x: Factor) -> Row { return with_step(row, w, x); }
