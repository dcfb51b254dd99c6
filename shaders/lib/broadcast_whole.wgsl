// Sums of integers in a tile whose rows a subgroup shares (lib/broadcast_tile.wgsl). All of it wraps around, so that
// what is added up later is right modulo 2^32. lib/broadcast_reals.wgsl has the same functions for reals. Expects w;
// plus_step() of lib/broadcast_rows.wgsl.

alias Total = vec4<i32>;
alias Factor = i32;
alias Ending = u32;

fn begin(n: u32) -> Total { return Total(); }

fn factor_of(x: T) -> Factor { return x; }

fn factors_of(x: vec4<T>) -> vec4<Factor> { return x; }

fn weight_at(q: u32) -> vec4<Factor> { return load4_w(q); }

fn plus_product(sum: Total, w: Total, x: i32) -> Total { return sum + w * x; }

fn add_step(sum: Total, w: Weights, x: Factors) -> Total { return plus_step(sum, w, x); }

fn ending(n: u32) -> Ending { return n; }

fn finished(m: u32, end: u32, n: u32, sums: ptr<function, Sums>) -> Ending { return n; }

fn stored(sum: Total, by: Ending) -> vec4<T> { return sum; }
