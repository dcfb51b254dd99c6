//!use flat
// Convolution over depth, height and width:
// y[n, d, h, w, o] = apply(bias[o] + sum of x[n, (d, h, w) * stride + cell * dilation - before, c] * w[cell, c, o]),
// over the channels c of o's group.
// Expects x, loaded by elements; w [cells, C, N], bias [N], y; p.count, the V's of y; p.N, the V's of y's channels;
// p.group, those of a group; p.channels of x; p.C, those of a group; in p.*.xyz, for depth, height and width: p.input,
// p.result, p.window, p.stride, p.dilation, p.before. An invocation computes one V: channels at one place.

fn compute(i: u32) {
  let n = i % p.N;
  let place = vec3<i32>(p.result.xyz);
  var m = i32(i / p.N);
  var at: vec3<i32>;
  at.z = m % place.z; m /= place.z;
  at.y = m % place.y; m /= place.y;
  at.x = m % place.x; m /= place.x;
  let corner = at * p.stride.xyz - p.before.xyz;
  let first = n / p.group * p.C;
  var sum = loadv_bias(n);
  var q = n;
  for (var kd = 0; kd < p.window.x; kd++) {
    for (var kh = 0; kh < p.window.y; kh++) {
      for (var kw = 0; kw < p.window.z; kw++) {
        let cell = corner + vec3<i32>(kd, kh, kw) * p.dilation.xyz;
        if (all(cell >= vec3<i32>(0)) && all(cell < p.input.xyz)) {
          let pixel = u32(((m * p.input.x + cell.x) * p.input.y + cell.y) * p.input.z + cell.z) * p.channels + first;
          for (var c = 0u; c < p.C; c++) {
            sum += load_x(pixel + c) * loadv_w(q + c * p.N);
          }
        }
        q += p.C * p.N;
      }
    }
  }
  storev_y(i, applyv(sum));
}
