//!use grid
// The entry point for recurrences: a workgroup computes a row of the batch, one time step after the other, and keeps
// its state in workgroup memory. A step multiplies the state with r, and combines the sums of each unit in cell().
// Expects r, repacked to [p.rows][GATES * p.columns] vec4s: for each k four units of a gate side by side, gate by gate,
// and zeros beyond the p.units of each; begin(m, n), which sets state[n] and what else a unit n keeps of row m;
// cell(phase, place, n), which reads the sums of unit n from total[4 * p.columns * gate + n], for time step `place` of
// all rows; finish(m, n), which stores what a unit has in the end. An invocation has the same units in all of these.
// There are PHASES, 1 or 2: if 2, the last gate is summed after cell() of the others, from state[UNITS + n]. p.batch;
// p.steps, the number of time steps, from p.first on, backwards if p.reverse is 1; p.units, up to UNITS; p.rows, a
// multiple of 4 WY, up to UNITS; p.along and p.across, the distances from a time step and from a row of the batch to
// the next one; STATES, the numbers that a unit keeps. A workgroup sums WX columns of four units at a time; WY
// invocations share each column.

var<workgroup> state: array<T, STATES * UNITS>;
var<workgroup> total: array<T, GATES * UNITS>;
var<workgroup> sums: array<vec4<T>, WX * WY>;

@compute @workgroup_size(WX, WY, WZ)
fn main(at: Invocation) {
  let m = workgroup_number(at);
  let own = at.local.y * WX + at.local.x;
  if (m < p.batch) {
    for (var n = own; n < p.rows; n += WX * WY) {
      // Beyond the units r has zeros, but workgroup memory may hold NaN at first.
      for (var k = 0u; k < STATES; k++) {
        state[k * UNITS + n] = T();
      }
      if (n < p.units) {
        begin(m, n);
      }
    }
    for (var step = 0u; step < p.steps; step++) {
      let place = m * p.across + p.along * select(p.first + step, p.first - step, p.reverse == 1u);
      for (var phase = 0u; phase < PHASES; phase++) {
        let end = p.columns * (GATES + phase + 1u - PHASES);
        multiply(phase * UNITS, select(0u, end - p.columns, phase == 1u), end, at.local);
        for (var n = own; n < p.units; n += WX * WY) {
          cell(phase, place, n);
        }
      }
    }
    for (var n = own; n < p.units; n += WX * WY) {
      finish(m, n);
    }
  }
}

// Set total for the columns of r from `begin` to `end` to the sums over k of state[source + k] * r[k]. All of a
// workgroup must call it.
fn multiply(source: u32, begin: u32, end: u32, local: vec3<u32>) {
  let own = local.y * WX + local.x;
  for (var first = begin; first < end; first += WX) {
    workgroupBarrier();
    sums[own] = product(source, first + local.x, end, local.y);
    for (var half = WY / 2u; half > 0u; half /= 2u) {
      workgroupBarrier();
      if (local.y < half) {
        sums[own] += sums[own + half * WX];
      }
    }
    workgroupBarrier();
    for (var i = own; i < 4u * min(WX, end - first); i += WX * WY) {
      total[4u * first + i] = sums[i / 4u][i % 4u];
    }
  }
  workgroupBarrier();
}

// The sum of every WY-th row from `row` on in a column, with four loads under way at a time.
fn product(source: u32, column: u32, end: u32, row: u32) -> vec4<T> {
  var sum = vec4<T>();
  if (column >= end) {
    return sum;
  }
  let width = GATES * p.columns;
  let next = WY * width;
  var q = row * width + column;
  for (var k = source + row; k < source + p.rows; k += 4u * WY) {
    let a = load4_r(q);
    let b = load4_r(q + next);
    let c = load4_r(q + 2u * next);
    let d = load4_r(q + 3u * next);
    sum += state[k] * a + state[k + WY] * b + (state[k + 2u * WY] * c + state[k + 3u * WY] * d);
    q += 4u * next;
  }
  return sum;
}
