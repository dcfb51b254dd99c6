//!use flat window
// Convolution over height and width with any number of groups. The filter is not repacked.
// Expects x [batch, H, W, C]; bias [N]; w, where output channel n, window cell k and input channel j of its group are
// at n * p.WN + k * p.WC + j; the functions of lib/real.wgsl and lib/chain.wgsl; p.count (output values), p.KW, p.N,
// p.C; p.GN, the output channels of a group; p.GC, the input channels; p.first and p.end: the rows and columns of the
// window, and the channels of the group, to add up here; what lib/window.wgsl expects. An invocation computes one
// output value.

fn compute(i: u32) {
  let m = i / p.N;
  let n = i - m * p.N;
  let first = n / p.GN * p.GC;
  let c = corner(m);
  let begins = vec3<u32>(p.first.xyz);
  let ends = vec3<u32>(p.end.xyz);
  var sum = begin(i, n);
  for (var ky = begins.x; ky < ends.x; ky++) {
    for (var kx = begins.y; kx < ends.y; kx++) {
      let pixel = cell(c, ky, kx);
      let q = n * p.WN + (ky * p.KW + kx) * p.WC;
      if (pixel != OUTSIDE) {
        for (var k = begins.z; k < ends.z; k++) {
          sum = add(sum, enter(load_x(pixel * p.C + first + k)), weigh(load_w(q + k)));
        }
      }
    }
  }
  put(i, n, sum);
}
