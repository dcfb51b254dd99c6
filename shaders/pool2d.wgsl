//!use cells cooperative known_window window
// A pool over height and width: finish(s, n), where s combines start() with all cells of the window inside the input,
// and n is the number of these cells.
// Expects x [batch, H, W, C] and y [batch, OH, OW, C], C counts V's; p.x_pitch and p.x_first, where pixels of x begin;
// start(), enter(v), combine(s, v), finish(s, n); resume(s, before), which chooses s, or what a dispatch before this
// one has combined; before, of y's shape or absent; p.KH, p.KW, p.C, p.SIZE (V's of y); joined(at, s) of
// lib/pool_alone.wgsl if GROUP_SIZE is 1, else of lib/pool_shared.wgsl; what lib/known_window.wgsl and lib/window.wgsl
// expect. A cooperative group (lib/cooperative.wgsl) shares one output pixel of one V of channels; each member takes
// every GROUP_SIZE-th row of the window.

fn compute(at: Member) {
  let there = at.group < p.SIZE;
  let i = min(at.group, p.SIZE - 1u);
  let m = i / p.C;
  let c = i - m * p.C;
  let upper_left = corner(m);
  let begins = first_cell();
  let ends = end_of_cells();
  let rows = select(0u, ends.x, KNOWN || there);
  var s = startv();
  if (at.rank == 0u) { s = resumev(s, loadv_before(i)); }
  for (var ky = begins.x + at.rank; ky < rows; ky += GROUP_SIZE) {
    for (var kx = begins.y; kx < ends.y; kx++) {
      let pixel = cell(upper_left, ky, kx);
      let seen = pixel != OUTSIDE;
      if (KNOWN || seen) {
        let place = select(0u, pixel, seen) * p.x_pitch + p.x_first + c;
        let combined = combinev(s, enterv(loadv_x(place)));
        if (seen) { s = combined; }
      }
    }
  }
  let all = joined(at, s);
  if (at.rank == 0u && there) {
    let cells = inside(upper_left.row, p.KH, p.H) * inside(upper_left.column, p.KW, p.W);
    storev_y(i, applyv(finishv(all, V(T(cells)))));
  }
}
