// Sums in several dispatches, each of which adds a part of the terms (gpunn/ops/kernels/chain.py).
// Expects Sum; bias; before, of y's shape or absent; resume(sum, before), which chooses sum, or what the dispatch
// before this one has added up.

// The first value of the sums of element i, of output channels n.
fn begin(i: u32, n: u32) -> Sum { return resumev(loadv_bias(n), loadv_before(i)); }
