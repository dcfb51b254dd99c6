//!use one_column
// The sums of a row in integer_product.wgsl, in a register tile of one column: lib/word_columns.wgsl has the same for
// two. Expects ONES, products(w, x), CENTRED and p.zeros, as integer_product.wgsl has them.

struct Row { sums: vec4<i32>, inputs: i32 }

fn begin_row(n: u32, split: u32) -> Row { return Row(bias_of_split(n, split), 0); }

// The sums of a row with a word of the depth.
fn with_word(row: Row, w: Columns, x: i32) -> Row {
  var inputs = row.inputs;
  if (CENTRED == 0u) { inputs += products(ONES, x); }
  return Row(row.sums + products4(w, vec4<i32>(x)), inputs);
}

fn columns(row: Row) -> Columns { return row.sums - p.zeros.y * row.inputs; }
