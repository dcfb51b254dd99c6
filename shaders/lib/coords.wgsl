//!use walk
// Coordinates of an element in up to eight dimensions, and the place to which strides lead from there.
// Expects RANK, the dimensions; p.size and p.size_hi (extents of the inner and of the outer four dimensions), p.inner
// (elements of the inner four). Divisions take long, so there are no more than the rank needs.

struct Coords {
  low: vec4<u32>,
  high: vec4<u32>,
}

fn coords(i: u32) -> Coords {
  if (RANK > 4u) {
    return Coords(unravel(i % p.inner, p.size), unravel(i / p.inner, p.size_hi));
  }
  if (RANK == 1u) { return Coords(vec4<u32>(0u, 0u, 0u, i), vec4<u32>()); }
  let n = vec4<u32>(p.size);
  let z = i / n.w;
  let w = i - z * n.w;
  if (RANK == 2u) { return Coords(vec4<u32>(0u, 0u, z, w), vec4<u32>()); }
  let y = z / n.z;
  if (RANK == 3u) { return Coords(vec4<u32>(0u, y, z - y * n.z, w), vec4<u32>()); }
  let x = y / n.y;
  return Coords(vec4<u32>(x, y - x * n.y, z - y * n.z, w), vec4<u32>());
}

// The coordinates of the element behind, without a division.
fn next_coords(at: Coords) -> Coords {
  var next = Coords(advanced(at.low, p.size, RANK), at.high);
  if (RANK > 4u && next.low.x == u32(p.size.x)) {
    next.low.x = 0u;
    next.high = advanced(at.high, p.size_hi, RANK - 4u);
  }
  return next;
}

// The same in `rank` of four dimensions; the outermost one is not reduced by its extent.
fn advanced(at: vec4<u32>, size: vec4<i32>, rank: u32) -> vec4<u32> {
  let n = vec4<u32>(size);
  let w = at.w + 1u;
  if (rank == 1u) { return vec4<u32>(at.xyz, w); }
  let z = at.z + select(0u, 1u, w == n.w);
  let inner = select(w, 0u, w == n.w);
  if (rank == 2u) { return vec4<u32>(at.xy, z, inner); }
  let y = at.y + select(0u, 1u, z == n.z);
  let middle = select(z, 0u, z == n.z);
  if (rank == 3u) { return vec4<u32>(at.x, y, middle, inner); }
  return vec4<u32>(at.x + select(0u, 1u, y == n.y), select(y, 0u, y == n.y), middle, inner);
}

fn along(at: Coords, stride: vec4<i32>, stride_hi: vec4<i32>) -> u32 {
  if (RANK > 4u) {
    return distance(at.low, stride) + distance(at.high, stride_hi);
  }
  return distance(at.low, stride);
}
