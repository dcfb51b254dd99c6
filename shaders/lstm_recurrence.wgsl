//!use sequence
// A long short-term memory over time: for each unit n of a row of the batch, with y[-1] = h, and h_out the last y,
//   the gates' sums[g] = x[t, g] + y[t - 1] * r[g], to which a peephole adds its weight * c,
//   input, forget, output = gate(bounded(sum)), block = inner(bounded(sum)); forget = 1 - input if there are 3 GATES,
//   c = clipped(forget * c + input * block), y[t] = output * outer(c); the output gate's peephole sees the new c.
// Expects x, a row of units for each gate: input, forget, block, output; h, c; r and what else lib/sequence.wgsl reads;
// peepholes, one number for each unit and each gate but the block; y, h_out, c_out; bounded(x), clipped(x), gate(x),
// inner(x), outer(x). A unit keeps y and c.

fn begin(m: u32, n: u32) {
  state[n] = load_h(m * p.units + n);
  state[UNITS + n] = load_c(m * p.units + n);
}

// The sum of a gate.
fn sum_of(number: u32, place: u32, n: u32) -> T {
  return load_x((place * GATES + number) * p.units + n) + total[4u * p.columns * number + n];
}

fn cell(phase: u32, place: u32, n: u32) {
  var c = state[UNITS + n];
  let input = gate(bounded(sum_of(0u, place, n) + load_peepholes(n) * c));
  var forget = 1.0 - input;
  if (GATES == 4u) {
    forget = gate(bounded(sum_of(1u, place, n) + load_peepholes(p.units + n) * c));
  }
  c = clipped(forget * c + input * inner(bounded(sum_of(GATES - 2u, place, n))));
  let output = gate(bounded(sum_of(GATES - 1u, place, n) + load_peepholes((GATES - 2u) * p.units + n) * c));
  let v = output * outer(c);
  state[n] = v;
  state[UNITS + n] = c;
  store_y(place * p.units + n, v);
}

fn finish(m: u32, n: u32) {
  store_h_out(m * p.units + n, state[n]);
  store_c_out(m * p.units + n, state[UNITS + n]);
}
