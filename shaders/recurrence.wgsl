//!use sequence
// A recurrence over time: y[t] = apply(bounded(x[t] + sum over k of y[t - 1, k] * r[n, k])) for each unit n of a row of
// the batch. It starts with y[-1] = h; h_out is the last y.
// Expects x, h; r and what else lib/sequence.wgsl reads; y, h_out; bounded(x). A unit keeps one number.

fn begin(m: u32, n: u32) { state[n] = load_h(m * p.units + n); }

fn cell(phase: u32, place: u32, n: u32) {
  let i = place * p.units + n;
  let v = apply(bounded(load_x(i) + total[n]));
  state[n] = v;
  store_y(i, v);
}

fn finish(m: u32, n: u32) { store_h_out(m * p.units + n, state[n]); }
