//!use inverse_root wide_rows
// The sums of long rows for lib/inverse_root.wgsl.

// x * 2^left / sqrt(total), where lower and upper are the words of the total; a total of 0 counts as 1.
fn by_wide_root(x: i32, lower: i32, upper: i32, left: i32) -> i32 {
  let total = I64(u32(lower), u32(upper));
  let gone = (max(bit_length(total), 29u) - 28u) / 2u;
  return by_root_of_part(x, i32(i64_shift_right(total, 2u * gone).x), gone, left);
}
