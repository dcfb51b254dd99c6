//!use flat coords
// Pairs (a, b) of x become (a cos - b sin, b cos + a sin) of y.
// Expects x, y of the same places; cos, sin; p.count, the pairs of V's; p.far_x, p.far_cos, p.far_sin, how far behind
// that of a each operand has what is b's; COS_SPLAT and SIN_SPLAT (1: the operand has one element along the innermost
// dimension, and its places count elements, not V's); p.x_stride, p.cos_stride, p.sin_stride, each with a _hi; what
// lib/coords.wgsl expects. An invocation computes a pair of V's.

fn compute(i: u32) {
  let at = coords(i);
  let here = along(at, p.x_stride, p.x_stride_hi);
  let there = here + p.far_x;
  let cos_here = along(at, p.cos_stride, p.cos_stride_hi);
  let sin_here = along(at, p.sin_stride, p.sin_stride_hi);
  let a = loadv_x(here);
  let b = loadv_x(there);
  storev_y(here, a * cosine(cos_here) - b * sine(sin_here));
  storev_y(there, b * cosine(cos_here + p.far_cos) + a * sine(sin_here + p.far_sin));
}

fn cosine(i: u32) -> V {
  if (COS_SPLAT == 1u) { return splat_cos(i); }
  return loadv_cos(i);
}

fn sine(i: u32) -> V {
  if (SIN_SPLAT == 1u) { return splat_sin(i); }
  return loadv_sin(i);
}
