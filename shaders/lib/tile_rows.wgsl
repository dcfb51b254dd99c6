// Eight rows of two neighbouring vec4 columns. Expects p.M (rows), and put_channels of lib/rows.wgsl or
// lib/rows_of_fours.wgsl.

// Rows from m on; those past the end are left out.
fn put_tile(m: u32, n: u32, left: array<vec4<T>, 8>, right: array<vec4<T>, 8>) {
  put_pair(m, n, left[0], right[0]);
  put_pair(m + 1u, n, left[1], right[1]);
  put_pair(m + 2u, n, left[2], right[2]);
  put_pair(m + 3u, n, left[3], right[3]);
  put_pair(m + 4u, n, left[4], right[4]);
  put_pair(m + 5u, n, left[5], right[5]);
  put_pair(m + 6u, n, left[6], right[6]);
  put_pair(m + 7u, n, left[7], right[7]);
}

fn put_pair(m: u32, n: u32, left: vec4<T>, right: vec4<T>) {
  if (m >= p.M) { return; }
  put_channels(m, n, left);
  put_channels(m, n + 1u, right);
}
