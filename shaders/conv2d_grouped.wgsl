//!use flat window
// Convolution over height and width with any number of groups. The filter is not repacked.
// Expects x [batch, H, W, C]; bias [N]; w, where output channel n, window cell k and input channel j of its group are
// at n * p.WN + k * p.WC + j; the functions of lib/real.wgsl; p.count (output values), p.KH, p.KW, p.N, p.C; p.GC and
// p.GN, the input and the output channels of a group; what lib/window.wgsl expects. An invocation computes one output
// value.

fn compute(i: u32) {
  let m = i / p.N;
  let n = i - m * p.N;
  let first = n / p.GN * p.GC;
  let c = corner(m);
  var sum = begin(n);
  var q = n * p.WN;
  for (var ky = 0u; ky < p.KH; ky++) {
    for (var kx = 0u; kx < p.KW; kx++) {
      let pixel = cell(c, ky, kx);
      if (pixel != OUTSIDE) {
        for (var k = 0u; k < p.GC; k++) {
          sum = add(sum, enter(load_x(pixel * p.C + first + k)), weigh(load_w(q + k)));
        }
      }
      q += p.WC;
    }
  }
  put(i, n, sum);
}
