// Results of Winograd's convolution of reals; lib/winograd_whole.wgsl has the same for quantised tensors. Expects
// p.low, p.high; clip, apply.

struct Ending { low: V, high: V }

fn ending(n: u32) -> Ending { return Ending(splatv(p.low), splatv(p.high)); }

fn result_of(sum: V, bias: V, by: Ending) -> V { return applyv(clipv(sum + bias, by.low, by.high)); }
