//!use fused_product
// Sums of reals in a tile whose rows a subgroup shares (lib/broadcast_tile.wgsl). lib/broadcast_integers.wgsl has the
// same functions for quantised tensors. Expects w, bias, clip, p.low and p.high, its bounds, which are loaded once:
// compilers take long for what is loaded at each store; switched_y() (1: there are optional appended operations,
// which appended4_y(i, v) computes of four elements; else 0); p.N; plus_step() of lib/broadcast_rows.wgsl.
// T is f32.

alias Total = vec4<T>;
alias Factor = f32;

fn begin(n: u32) -> Total { return load4_bias(n); }

fn factor_of(x: T) -> f32 { return x; }

fn factors_of(x: vec4<T>) -> vec4<f32> { return x; }

fn weight_at(q: u32) -> vec4<f32> { return load4_w(q); }

fn add_step(sum: Total, w: Weights, x: Factors) -> Total { return plus_step(sum, w, x); }

struct Ending { low: Total, high: Total }

fn ending(n: u32) -> Ending { return Ending(Total(p.low), Total(p.high)); }

// Computes the appended operations of the rows from m on, and returns how these are stored then. A loop takes less than
// a branch around the loads at each store: lavapipe computes both sides of branches.
fn finished(m: u32, end: u32, n: u32, sums: ptr<function, Sums>) -> Ending {
  var by = ending(n);
  let on = switched_y();
  let place = min(n, p.N / 4u - 1u);
  for (var r = 0u; r < on * ROWS; r++) {
    let v = appended4_y(min(m + r, end - 1u) * (p.N / 4u) + place, stored((*sums)[0], by));
    append_sum(sums, v);
  }
  let infinity = bitcast<f32>(on * 0x7f800000u);
  if (on == 1u) { by = Ending(Total(-infinity), Total(infinity)); }
  return by;
}

fn stored(sum: Total, by: Ending) -> vec4<T> { return clip4(sum, by.low, by.high); }
