//!use walk
// Vec4 columns of a stack of matrices b, wherever their elements lie. lib/packed_columns.wgsl has the same functions
// for packed weights.
// Expects four_b() of lib/columns_together.wgsl or lib/columns_apart.wgsl; p.K, the depth; p.b_first, where b begins;
// p.batch, the extents of the stack; p.b_batch, the strides along them; p.b_step, whose first two numbers are the
// strides along the rows and along the columns of a matrix.

// The first element of a column, and the number of the first of its four columns.
struct Column { place: u32, n: u32 }

fn column_of(matrix: u32, n: u32) -> Column {
  let first = p.b_first + distance(unravel(matrix, p.batch), p.b_batch);
  return Column(first + 4u * n * u32(p.b_step.y), 4u * n);
}

fn weights_of(column: Column, k: u32) -> vec4<T> {
  var w = vec4<T>();
  if (k < p.K) { w = four_b(column.place + k * u32(p.b_step.x), column.n); }
  return w;
}
