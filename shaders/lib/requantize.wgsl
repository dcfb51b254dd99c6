//!use centre affine
// How a convolution or a matrix product of quantised tensors takes its operands, adds up their products and stores
// the sums: with a multiplier and a shift for each output channel (gpunn/ops/contraction/product_rescaling.py).
// Expects bias; scales: multipliers, and from p.SCALES on shifts, counted in V; finish(sum, multiplier, shift, away),
// which rescales and clamps; p.UP: from this V of channels on halves go away from zero, before it upwards.

alias Sum = V;

fn begin(n: u32) -> Sum { return loadv_bias(n); }
fn add(sum: Sum, x: V, w: V) -> Sum { return sum + x * w; }

// Sums of output channels n of which the lower and the upper bytes of x have these parts.
fn of_planes(n: u32, low: V, high: V) -> Sum { return begin(n) + low + high * 256; }

// Sums of output channels n as stored integers.
fn requantize(n: u32, sum: V) -> V {
  return finishv(sum, loadv_scales(n), loadv_scales(p.SCALES + n), V(T(n >= p.UP)));
}

// Store sums of output channels n as element i.
fn put(i: u32, n: u32, sum: Sum) { storev_y(i, requantize(n, sum)); }
