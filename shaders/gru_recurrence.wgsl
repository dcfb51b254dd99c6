//!use sequence
// A gated recurrence over time: for each unit n of a row of the batch, with y[-1] = h, and h_out the last y,
//   update = gate(bounded(x[t, 0] + y[t - 1] * r[0])), reset likewise with 1,
//   candidate = inner(bounded(x[t, 2] + (reset * y[t - 1]) * r[2])),
//   y[t] = (1 - update) * candidate + update * y[t - 1].
// Expects x, a row of units for each of three gates; h; r and what else lib/sequence.wgsl reads; y, h_out; bounded(x),
// gate(x), inner(x). A unit keeps y and, for the second phase, reset * y.

fn begin(m: u32, n: u32) { state[n] = load_h(m * p.units + n); }

fn cell(phase: u32, place: u32, n: u32) {
  let i = place * 3u * p.units + n;
  let h = state[n];
  if (phase == 0u) {
    let reset = gate(bounded(load_x(i + p.units) + total[4u * p.columns + n]));
    total[n] = gate(bounded(load_x(i) + total[n]));
    state[UNITS + n] = reset * h;
  } else {
    let update = total[n];
    let v = (1.0 - update) * inner(bounded(load_x(i + 2u * p.units) + total[8u * p.columns + n])) + update * h;
    state[n] = v;
    store_y(place * p.units + n, v);
  }
}

fn finish(m: u32, n: u32) { store_h_out(m * p.units + n, state[n]); }
