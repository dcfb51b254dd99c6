// Sums of reals with one more product, by fma() for software: see lib/fused_product.wgsl.

fn with_product(sum: V, x: V, w: V) -> V { return fma(x, w, sum); }
