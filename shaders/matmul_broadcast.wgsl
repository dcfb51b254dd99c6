// y[m, n] = apply(bias[n] + sum over k of x[m, k] * w[k, n]), as a product whose rows a subgroup shares
// (lib/broadcast_tile.wgsl, or lib/broadcast_tile_4.wgsl for subgroups of four).
// Expects x [M, K]; p.K; p.x_pitch and p.x_first, where its rows begin; p.DEPTH, STEP; FOURS (1: K, pitch and first
// are divisible by 4); Factor, factor_of(), factors_of(); what the library expects.

const UNIT: u32 = select(1u, 4u, FOURS == 1u); // elements that places count

alias Start = u32;
alias Places = Starts;
struct Step { k: u32, column: Column4_x }

fn add_products(sums: ptr<function, Sums>, starts: Starts, q: u32) {
  add_depth(sums, starts, p.DEPTH / STEP, q);
}

fn start(m: u32) -> Start { return (m * p.x_pitch + p.x_first) / UNIT; }

fn next_start(row: Start) -> Start { return row + p.x_pitch / UNIT; }

fn step_of(k: u32) -> Step { return Step(k, column4_x(k / 4u)); }

fn factors_at(row: u32, step: Step) -> vec4<Factor> {
  let k = step.k;
  if (FOURS == 1u) { return factors_of(row4_x(row, step.column)); }
  return vec4<Factor>(factor_at(row, k), factor_at(row, k + 1u), factor_at(row, k + 2u), factor_at(row, k + 3u));
}

fn factor_at(row: u32, k: u32) -> Factor {
  return select(Factor(), factor_of(load_x(row + min(k, p.K - 1u))), k < p.K);
}
