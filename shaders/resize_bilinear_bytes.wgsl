//!use flat
// y[n, h, w, c] = x, bytes, resampled linearly along h and w: the sum of four bytes times their weights, plus 1/2,
// without its fraction. All of it is f32, and each step rounds, so that bytes are the same on every device.
// Expects x; lib/each.wgsl or lib/each_of_four.wgsl; rows and columns (i32), for each row and column of y the two of x
// beside it; down and across (f32), how much these count; p.channels in V's; p.height, p.width; p.out_height,
// p.out_width; p.zero, which is 0.

// v, but no compiler knows that. It cannot make one step of a product and a sum then, which would round only once.
fn rounded(v: V_acc) -> V_acc { return bitcast<V_acc>(bitcast<V>(v) | splatv(T(p.zero))); }

fn term(pixel: u32, channel: u32, tall: f32, wide: f32) -> V_acc {
  let weight = rounded(V_acc(tall * wide));
  return rounded(V_acc(loadv_x(pixel * p.channels + channel)) * weight);
}

fn element(i: u32) -> V {
  let channel = i % p.channels;
  let pixel = i / p.channels;
  let h = 2u * (pixel / p.out_width % p.out_height);
  let w = 2u * (pixel % p.out_width);
  let image = pixel / p.out_width / p.out_height * p.height;
  let above = (image + u32(load_rows(h))) * p.width;
  let below = (image + u32(load_rows(h + 1u))) * p.width;
  let left = u32(load_columns(w));
  let right = u32(load_columns(w + 1u));
  let near = load_down(h);
  let far = load_down(h + 1u);
  var sum = term(above + left, channel, near, load_across(w));
  sum += term(above + right, channel, near, load_across(w + 1u));
  sum += term(below + left, channel, far, load_across(w));
  sum += term(below + right, channel, far, load_across(w + 1u));
  return V(rounded(sum) + 0.5); // else a compiler may add 1/2 to the first term
}
