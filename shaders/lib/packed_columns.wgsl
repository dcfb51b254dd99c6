// Weights that are packed: vec4 columns of w [MATRICES, 4 K4, 4 N4], zeros behind the depth. lib/stack_columns.wgsl has
// the same functions for matrices wherever they lie. Expects w, p.K4, p.N4.

alias Column = u32;

fn column_of(matrix: u32, n: u32) -> Column { return matrix * 4u * p.K4 * p.N4 + n; }

fn weights_of(column: Column, k: u32) -> vec4<T> {
  var w = vec4<T>();
  if (k < 4u * p.K4) { w = load4_w(k * p.N4 + column); }
  return w;
}
