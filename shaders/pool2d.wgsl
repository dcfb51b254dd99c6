//!use flat window
// A pool over height and width: start() combined with every cell of the window inside the input, finished
// with the number of those cells.
//
// One invocation: one output pixel of one V of channels.
// Expects x [batch, H, W, C] and y [batch, OH, OW, C], C counted in V, the window's parameters
// (lib/window.wgsl), p.KH, p.KW, p.C, p.SIZE (output values in V), and start(), combine(s, v), finish(s, n).

@compute @workgroup_size(WX, WY, WZ)
fn main(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_id) local: vec3<u32>,
) {
  let i = flat_index(group, groups, local);
  if (i >= p.SIZE) { return; }
  let m = i / p.C;
  let c = i - m * p.C;
  let upper_left = corner(m);
  var s = startv();
  var count = 0u;
  for (var ky = 0u; ky < p.KH; ky++) {
    for (var kx = 0u; kx < p.KW; kx++) {
      let pixel = cell(upper_left, ky, kx);
      if (pixel != OUTSIDE) {
        s = combinev(s, loadv_x(pixel * p.C + c));
        count += 1u;
      }
    }
  }
  storev_y(i, applyv(finishv(s, V(T(count)))));
}
