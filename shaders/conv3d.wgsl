//!use flat volume
// Convolution over depth, height and width for any filter:
// y[n, d, h, w, o] = apply(bias[o] + sum of x[n, (d, h, w) * stride + cell * dilation - before, c] * w[cell, c, o]),
// over the channels c of o's group.
// Expects x, loaded by elements; w [cells, C, N], bias [N], y; the functions of lib/real.wgsl and lib/chain.wgsl;
// p.count, the V's of y; p.N, the V's of y's channels; p.group, those of a group; p.channels of x; p.C, those of a
// group; p.KW, the columns of the window; p.first and p.end: the rows of all planes of the window, its columns, and the
// channels of the group to add up here; what lib/volume.wgsl expects. An invocation computes one V: channels at one
// place.

fn compute(i: u32) {
  let m = i / p.N;
  let n = i - m * p.N;
  let group = n / p.group * p.C;
  let c = corner(m);
  let begins = vec3<u32>(p.first.xyz);
  let ends = select(vec3<u32>(), vec3<u32>(p.end.xyz), n < p.N);  // as end_of_loop()
  var sum = begin(i, n);
  for (var ky = begins.x; ky < ends.x; ky++) {
    for (var kx = begins.y; kx < ends.y; kx++) {
      let pixel = cell(c, ky, kx);
      let q = (ky * p.KW + kx) * p.C * p.N + n;
      if (pixel != OUTSIDE) {
        for (var k = begins.z; k < ends.z; k++) {
          sum = add(sum, enter(V(load_x(pixel * p.channels + group + k))), weigh(loadv_w(q + k * p.N)));
        }
      }
    }
  }
  put(i, n, sum);
}
