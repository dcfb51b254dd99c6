//!use two_columns
// The sums of a row in integer_product.wgsl, in a register tile of two columns: lib/word_column.wgsl has the same for
// one. Expects ONES, products(w, x), CENTRED and p.zeros, as that file has them.

// The sums of a row: those of products with the stored filter, and that of the inputs, for the filter's zero point.
struct Row { left: vec4<i32>, right: vec4<i32>, inputs: i32 }

fn begin_row(n: u32, split: u32) -> Row {
  let bias = bias_of_split(n, split);
  return Row(bias.left, bias.right, 0);
}

// The sums of a row with a word of the depth.
fn with_word(row: Row, w: Columns, x: i32) -> Row {
  var inputs = row.inputs;
  if (CENTRED == 0u) { inputs += products(ONES, x); }
  let factor = vec4<i32>(x);
  return Row(row.left + products4(w.left, factor), row.right + products4(w.right, factor), inputs);
}

fn columns(row: Row) -> Columns {
  let zeros = p.zeros.y * row.inputs;
  return Columns(row.left - zeros, row.right - zeros);
}
