//!use int64 totals
// Sums of 64 bits of rows (gpunn/ops/normalization/rows.py); they come as two words and are not negative.

fn bit_length(x: I64) -> u32 {
  return select(32u - countLeadingZeros(x.x), 64u - countLeadingZeros(x.y), x.y != 0u);
}

// A sum, of which 31 bits have no integer bits, cut off below so that 31 bits remain.
fn wide_total(lower: i32, upper: i32) -> Total {
  let sum = I64(u32(lower), u32(upper));
  let gone = max(bit_length(sum), 31u) - 31u;
  return Total(i32(i64_shift_right(sum, gone).x), i32(gone));
}
