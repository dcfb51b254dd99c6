//!use walk
// Coordinates of an element in up to eight dimensions, and the place to which strides lead from there.
// Expects HIGH (1: there are more than four dimensions), p.size and p.size_hi (extents of the inner and of the outer
// four dimensions), p.inner (elements of the inner four).

struct Coords {
  low: vec4<u32>,
  high: vec4<u32>,
}

fn coords(i: u32) -> Coords {
  if (HIGH == 1u) {
    return Coords(unravel(i % p.inner, p.size), unravel(i / p.inner, p.size_hi));
  }
  return Coords(unravel(i, p.size), vec4<u32>(0u));
}

fn along(at: Coords, stride: vec4<i32>, stride_hi: vec4<i32>) -> u32 {
  if (HIGH == 1u) {
    return distance(at.low, stride) + distance(at.high, stride_hi);
  }
  return distance(at.low, stride);
}
