//!use cooperative window
// A pool over height and width: finish(s, n), where s combines start() with all cells of the window inside the input,
// and n is the number of these cells.
// Expects x [batch, H, W, C] and y [batch, OH, OW, C], C counts V's; start(), enter(v), combine(s, v), finish(s, n);
// p.KH, p.KW, p.C, p.SIZE (V's of y); joined(at, part) of lib/pool_alone.wgsl if GROUP_SIZE is 1, else of
// lib/pool_shared.wgsl; what lib/window.wgsl expects. A cooperative group (lib/cooperative.wgsl) shares one output
// pixel of one V of channels; each member takes every GROUP_SIZE-th row of the window.

// The combination of some cells, and their number.
struct Pooled { s: V, count: u32 }

fn compute(at: Member) {
  let i = at.group;
  let m = i / p.C;
  let c = i - m * p.C;
  let upper_left = corner(m);
  let rows = select(0u, p.KH, i < p.SIZE);
  var s = startv();
  var count = 0u;
  for (var ky = at.rank; ky < rows; ky += GROUP_SIZE) {
    for (var kx = 0u; kx < p.KW; kx++) {
      let pixel = cell(upper_left, ky, kx);
      if (pixel != OUTSIDE) {
        s = combinev(s, enterv(loadv_x(pixel * p.C + c)));
        count += 1u;
      }
    }
  }
  let all = joined(at, Pooled(s, count));
  if (at.rank == 0u && i < p.SIZE) {
    storev_y(i, applyv(finishv(all.s, V(T(all.count)))));
  }
}
