//!use walk
// The terms of a result along up to four reduced dimensions. Expects p.reduced (extents), p.reduced_stride in V's,
// ONE_RUN (1: the terms have one stride, p.reduced_stride.w).

// The coordinates of a term.
fn term(r: u32) -> vec4<u32> {
  if (ONE_RUN == 1u) { return vec4<u32>(0u, 0u, 0u, r); }
  return unravel(r, p.reduced);
}

// The coordinates of the term that lies as many terms behind another one as `step` counts: divisions take too long to
// do them for each term.
fn behind(term: vec4<u32>, step: vec4<u32>) -> vec4<u32> {
  var at = term + step;
  if (ONE_RUN == 1u) { return at; }
  let size = vec4<u32>(p.reduced);
  if (at.w >= size.w) { at -= vec4<u32>(0u, 0u, 0u, size.w); at.z++; }
  if (at.z >= size.z) { at -= vec4<u32>(0u, 0u, size.z, 0u); at.y++; }
  if (at.y >= size.y) { at -= vec4<u32>(0u, size.y, 0u, 0u); at.x++; }
  return at;
}

fn place(term: vec4<u32>) -> u32 {
  if (ONE_RUN == 1u) { return term.w * u32(p.reduced_stride.w); }
  return distance(term, p.reduced_stride);
}
