// Sums of reals in a tile whose rows a subgroup shares (lib/broadcast_tile.wgsl). lib/broadcast_integers.wgsl has the
// same functions for quantised tensors. Expects w, bias, clip, p.low and p.high, its bounds, which are loaded once:
// compilers take long for what is loaded at each store. T is f32.

alias Total = vec4<T>;

fn begin(n: u32) -> Total { return load4_bias(n); }

fn factor_of(x: T) -> f32 { return x; }

fn factors_of(x: vec4<T>) -> vec4<f32> { return x; }

fn weight_at(q: u32) -> vec4<f32> { return load4_w(q); }

fn add_step(sum: Total, w: Weights, x: Factors) -> Total { return plus_step(sum, w, x); }

struct Ending { low: Total, high: Total }

fn ending(n: u32) -> Ending { return Ending(Total(p.low), Total(p.high)); }

fn stored(sum: Total, by: Ending) -> vec4<T> { return clip4(sum, by.low, by.high); }
