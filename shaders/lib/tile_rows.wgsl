//!use slices
// Eight rows of two neighbouring vec4 columns. Expects p.M (rows), put_channels of lib/rows.wgsl or
// lib/rows_of_fours.wgsl, and what becomes of a column's sums before: requantize of lib/as_summed.wgsl or
// lib/requantize.wgsl.

// Rows from m on, joined from their slices; those past the end are left out. All of a workgroup must call it.
// Not by value: copies of the arrays cost lavapipe a fifth of a quantised network's time.
fn put_tile(
  local: vec3<u32>, m: u32, n: u32,
  a: ptr<function, array<vec4<T>, 8>>, b: ptr<function, array<vec4<T>, 8>>,
) {
  join_tile(local, a, b);
  if (slice_of(local) > 0u) { return; }
  put_pair(m, n, (*a)[0], (*b)[0]);
  put_pair(m + 1u, n, (*a)[1], (*b)[1]);
  put_pair(m + 2u, n, (*a)[2], (*b)[2]);
  put_pair(m + 3u, n, (*a)[3], (*b)[3]);
  put_pair(m + 4u, n, (*a)[4], (*b)[4]);
  put_pair(m + 5u, n, (*a)[5], (*b)[5]);
  put_pair(m + 6u, n, (*a)[6], (*b)[6]);
  put_pair(m + 7u, n, (*a)[7], (*b)[7]);
}

fn put_pair(m: u32, n: u32, left: vec4<T>, right: vec4<T>) {
  if (m >= p.M) { return; }
  put_channels(m, n, requantize(n, left));
  put_channels(m, n + 1u, requantize(n + 1u, right));
}
