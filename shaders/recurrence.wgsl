//!use grid
// A recurrence over time: y[t] = apply(x[t] + sum over k of y[t - 1, k] * r[n, k]) for each unit n of a row of the
// batch. It starts with y[-1] = h; h_out is the last y.
// Expects x, h; r, repacked to [p.rows][p.columns] vec4s: for each k four units side by side, and zeros beyond them; y,
// h_out; p.batch; p.steps, the number of time steps, from p.first on, backwards if p.reverse is 1; p.units, up to
// UNITS; p.rows, a multiple of 4 WY, up to UNITS; p.along and p.across, the distances from a time step and from a row
// of the batch to the next one in x and y. A workgroup computes a row of the batch and keeps its state. In each time
// step it sums WX columns of four units at a time; WY invocations share each column.

var<workgroup> state: array<T, 2 * UNITS>;
var<workgroup> sums: array<vec4<T>, WX * WY>;

@compute @workgroup_size(WX, WY, WZ)
fn main(at: Invocation) {
  let m = workgroup_number(at);
  let local = at.local;
  let own = local.y * WX + local.x;
  if (m < p.batch) {
    for (var n = own; n < p.rows; n += WX * WY) {
      // Beyond the units r has zeros, but workgroup memory may hold NaN at first.
      state[n] = T();
      state[UNITS + n] = T();
      if (n < p.units) {
        state[n] = load_h(m * p.units + n);
      }
    }
    var old = 0u;
    for (var step = 0u; step < p.steps; step++) {
      let start = m * p.across + p.along * select(p.first + step, p.first - step, p.reverse == 1u);
      for (var first = 0u; first < p.columns; first += WX) {
        workgroupBarrier();
        sums[own] = product(old, first + local.x, local.y);
        for (var half = WY / 2u; half > 0u; half /= 2u) {
          workgroupBarrier();
          if (local.y < half) {
            sums[own] += sums[own + half * WX];
          }
        }
        workgroupBarrier();
        for (var i = own; i < min(4u * WX, p.units - 4u * first); i += WX * WY) {
          let n = 4u * first + i;
          let v = apply(load_x(start + n) + sums[i / 4u][i % 4u]);
          state[UNITS - old + n] = v;
          store_y(start + n, v);
        }
      }
      old = UNITS - old;
    }
    workgroupBarrier();
    for (var n = own; n < p.units; n += WX * WY) {
      store_h_out(m * p.units + n, state[old + n]);
    }
  }
}

// The sum of every WY-th row from `row` on in a column, with four loads under way at a time.
fn product(old: u32, column: u32, row: u32) -> vec4<T> {
  var sum = vec4<T>();
  if (column >= p.columns) {
    return sum;
  }
  let next = WY * p.columns;
  var q = row * p.columns + column;
  for (var k = old + row; k < old + p.rows; k += 4u * WY) {
    let a = load4_r(q);
    let b = load4_r(q + next);
    let c = load4_r(q + 2u * next);
    let d = load4_r(q + 3u * next);
    sum += state[k] * a + state[k + WY] * b + (state[k + 2u * WY] * c + state[k + 3u * WY] * d);
    q += 4u * next;
  }
  return sum;
}
