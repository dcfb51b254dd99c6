// Sums of reals with one more product, which drivers may compute with one rounding or with two.

fn with_product(sum: V, x: V, w: V) -> V { return sum + x * w; }
