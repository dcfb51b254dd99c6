// Coordinates of an element in up to four dimensions, the innermost in w (gpunn/ops/kernels/strides.py). Strides may be
// negative: u32 arithmetic wraps around and gives the right place.

// Coordinates of element i of a dense space; x is not reduced by its extent.
fn unravel(i: u32, size: vec4<i32>) -> vec4<u32> {
  let n = vec4<u32>(size);
  let z = i / n.w;
  let y = z / n.z;
  let x = y / n.y;
  return vec4<u32>(x, y % n.y, z % n.z, i % n.w);
}

fn distance(at: vec4<u32>, stride: vec4<i32>) -> u32 {
  return dot(at, vec4<u32>(stride));
}
