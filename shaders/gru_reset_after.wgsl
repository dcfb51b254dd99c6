//!use sequence
// A gated recurrence over time, whose reset gate multiplies a product: for each unit n of a row of the batch, with
// y[-1] = h, and h_out the last y,
//   reset = gate(x[t, 0] + y[t - 1] * r[0]), update likewise with 1,
//   candidate = inner(x[t, 2] + reset * (y[t - 1] * r[2] + bias)),
//   y[t] = (1 - update) * candidate + update * y[t - 1].
// Expects x, a row of units for each of three gates; h; bias, a number for each unit; r and what else lib/sequence.wgsl
// reads; y, h_out; gate(x), inner(x). A unit keeps y.

fn begin(m: u32, n: u32) { state[n] = load_h(m * p.units + n); }

fn cell(phase: u32, place: u32, n: u32) {
  let i = place * 3u * p.units + n;
  let reset = gate(load_x(i) + total[n]);
  let update = gate(load_x(i + p.units) + total[4u * p.columns + n]);
  let candidate = inner(load_x(i + 2u * p.units) + reset * (total[8u * p.columns + n] + load_bias(n)));
  let v = (1.0 - update) * candidate + update * state[n];
  state[n] = v;
  store_y(place * p.units + n, v);
}

fn finish(m: u32, n: u32) { store_h_out(m * p.units + n, state[n]); }
