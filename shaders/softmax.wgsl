//!use flat
// y = exp(beta (x - max)) / sum(exp(beta (x - max))) along rows.
// Expects x, y; p.rows, p.length (elements of a row), p.inner (distance between a row's elements; rows whose numbers
// differ by less lie side by side), p.beta. WX invocations, a power of two, share a row, WY rows share a workgroup.

const LOWEST = -3.4028234e38;

var<workgroup> partial: array<T, WX * WY>;

// The maximum, or else the sum, of what the invocations of a row bring.
fn across(lane: u32, slot: u32, v: T, largest: bool) -> T {
  workgroupBarrier();
  partial[slot] = v;
  for (var half = WX / 2u; half > 0u; half /= 2u) {
    workgroupBarrier();
    if (lane < half) {
      let a = partial[slot];
      let b = partial[slot + half];
      partial[slot] = select(a + b, max(a, b), largest);
    }
  }
  workgroupBarrier();
  return partial[slot - lane];
}

// exp(-100) is 4e-44: nothing beside the row's maximum, which is 1. A NaN passes the comparison.
fn weight(x: T, top: T) -> T {
  let d = p.beta * (x - top);
  return exp(select(d, -100.0, d < -100.0));
}

@compute @workgroup_size(WX, WY, WZ)
fn main(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_id) local: vec3<u32>,
) {
  let row = flat_group(group, groups) * WY + local.y;
  let slot = local.y * WX + local.x;
  let start = row / p.inner * (p.inner * p.length) + row % p.inner;
  let count = select(0u, p.length, row < p.rows);

  var top = T(LOWEST);
  for (var k = local.x; k < count; k += WX) {
    top = max(top, load_x(start + k * p.inner));
  }
  top = across(local.x, slot, top, true);

  var sum = T(0);
  for (var k = local.x; k < count; k += WX) {
    sum += weight(load_x(start + k * p.inner), top);
  }
  sum = across(local.x, slot, sum, false);

  for (var k = local.x; k < count; k += WX) {
    let i = start + k * p.inner;
    store_y(i, weight(load_x(i), top) / sum);
  }
}
