//!use flat coords
// y = x with p.value around it, in up to eight dimensions.
// Expects x; lib/each.wgsl or lib/each_of_four.wgsl; p.value; p.before (elements of padding in front), p.extent (of x),
// p.x_stride, each with a _hi, innermost counted in V's; what lib/coords.wgsl expects.

fn element(i: u32) -> V {
  let y = coords(i);
  // In front of x the difference wraps around to a number above every extent.
  let x = Coords(y.low - vec4<u32>(p.before), y.high - vec4<u32>(p.before_hi));
  let inside = x.low < vec4<u32>(p.extent);  // of each dimension; those above the rank are all inside
  var known = inside.w;
  if (RANK > 1u) { known &= inside.z; }
  if (RANK > 2u) { known &= inside.y; }
  if (RANK > 3u) { known &= inside.x; }
  if (RANK > 4u) { known &= all(x.high < vec4<u32>(p.extent_hi)); }
  var v = splatv(T(p.value));
  if (known) { v = loadv_x(along(x, p.x_stride, p.x_stride_hi)); }
  return v;
}
