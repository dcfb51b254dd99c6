//!use broadcast_tile
// y[m, n] = apply(bias[n] + sum over k of x[m, k] * w[k, n]), as a product whose rows a subgroup shares
// (lib/broadcast_tile.wgsl).
// Expects x [M, K]; p.K; ALIGNED: K is divisible by 8; what lib/broadcast_tile.wgsl expects. An invocation computes
// 16 rows x 4 channels.

alias Start = u32;
alias Places = Starts;
alias Step = u32;

fn add_products(sums: ptr<function, Sums>, starts: Starts, q: u32, rank: u32) {
  add_depth(sums, starts, (p.K + 7u) / STEP, q, rank);
}

fn start(m: u32) -> Start { return m * p.K; }

fn next_start(row: Start) -> Start { return row + p.K; }

fn step_of(k: u32) -> Step { return k; }

fn factor_at(row: u32, k: Step) -> T {
  if (ALIGNED == 1u) { return load_x(row + k); }
  return select(T(), load_x(row + min(k, p.K - 1u)), k < p.K);
}
