//!use affine_int64
// Sums of 64 bits of products of quantised tensors: those of 16-bit inputs. A product fits into 32 bits; its bits below
// SPLIT and its bits from there on are added up separately, as many as 32 bits take; further dispatches add up more.
// Expects above(product), which is product >> SPLIT. For its users, before and before_upper are the lower and the upper
// words of what dispatches before this one have added up, of y's shape, or absent.

struct Sum { low: V, high: V }

fn begin(i: u32, n: u32) -> Sum { return Sum(V(), V()); }

fn add(sum: Sum, x: V, w: V) -> Sum {
  let product = x * w;
  return Sum(sum.low + (product & V(T((1u << SPLIT) - 1u))), sum.high + abovev(product));
}

// The sums from the products with the lower and with the upper bytes of x; SPLIT is 8.
fn of_planes(n: u32, low: V, high: V) -> Sum { return Sum(low, high); }

// A sum of both parts, and a number of 64 bits as two words.
fn whole(low: i32, high: i32, lower: i32, upper: i32) -> I64 {
  let sum = i64_add(i64_shift_left(i64_from_i32(high), SPLIT), i64_from_i32(low));
  return i64_add(sum, I64(u32(lower), u32(upper)));
}
