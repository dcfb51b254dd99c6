//!use matrices two_columns
// Steps of lib/matrices.wgsl for two columns.

struct Weights { left: mat4x4<T>, right: mat4x4<T> }

fn weights_at(q: u32) -> Weights { return Weights(matrix_at(q), matrix_at(q + 1u)); }

fn multiply_add(row: Row, w: Weights, x: Factor) -> Row {
  return Row(with_step(row.left, w.left, x), with_step(row.right, w.right, x));
}
