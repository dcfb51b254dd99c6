// Sums of products of reals: how operands are read, products added and sums stored. lib/requantize.wgsl and
// lib/requantize_int64.wgsl have the same functions for quantised tensors.
// Expects y, apply; with_product(sum, x, w), a sum with one more product, of lib/product_sum.wgsl or
// lib/fused_sum.wgsl.

alias Sum = V;

fn enter(x: V) -> V { return x; }
fn weigh(w: V) -> V { return w; }

// Sums with one more product.
fn add(sum: Sum, x: V, w: V) -> Sum { return with_product(sum, x, w); }

// What sums of output channels n are stored by, once for many.
alias Ending = u32;

fn ending(n: u32) -> Ending { return n; }

fn put_by(i: u32, sum: Sum, by: Ending) { storev_y(i, applyv(sum)); }

// Stores the sums of output channels n as element i.
fn put(i: u32, n: u32, sum: Sum) { put_by(i, sum, ending(n)); }
