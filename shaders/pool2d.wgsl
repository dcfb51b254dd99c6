//!use flat window
// A pool over height and width: start() combined with every cell of the window inside the input, finished
// with the number of those cells.
//
// WX invocations, a power of two, share one output pixel of one V of channels, each with every WX-th row of the
// window; WY of those share a workgroup.
// Expects x [batch, H, W, C] and y [batch, OH, OW, C], C counted in V, the window's parameters
// (lib/window.wgsl), p.KH, p.KW, p.C, p.SIZE (output values in V), and start(), enter(v), combine(s, v),
// finish(s, n).

var<workgroup> partial: array<V, WX * WY>;
var<workgroup> counts: array<u32, WX * WY>;

@compute @workgroup_size(WX, WY, WZ)
fn main(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_id) local: vec3<u32>,
) {
  let i = flat_group(group, groups) * WY + local.y;
  let m = i / p.C;
  let c = i - m * p.C;
  let upper_left = corner(m);
  let rows = select(0u, p.KH, i < p.SIZE);
  var s = startv();
  var count = 0u;
  for (var ky = local.x; ky < rows; ky += WX) {
    for (var kx = 0u; kx < p.KW; kx++) {
      let pixel = cell(upper_left, ky, kx);
      if (pixel != OUTSIDE) {
        s = combinev(s, enterv(loadv_x(pixel * p.C + c)));
        count += 1u;
      }
    }
  }
  if (WX > 1u) {
    let slot = local.y * WX + local.x;
    partial[slot] = s;
    counts[slot] = count;
    for (var half = WX / 2u; half > 0u; half /= 2u) {
      workgroupBarrier();
      if (local.x < half) {
        partial[slot] = combinev(partial[slot], partial[slot + half]);
        counts[slot] += counts[slot + half];
      }
    }
    s = partial[slot];
    count = counts[slot];
  }
  if (local.x == 0u && i < p.SIZE) {
    storev_y(i, applyv(finishv(s, V(T(count)))));
  }
}
