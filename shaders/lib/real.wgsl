// How a convolution of reals takes its operands and stores its sums; lib/requantize.wgsl has the same functions
// for quantised tensors. Expects apply.

fn enter(x: V) -> V { return x; }
fn weigh(w: V) -> V { return w; }

// Store sums of output channels n as element i.
fn put(i: u32, n: u32, sum: V) { storev_y(i, applyv(sum)); }
