//!use zero_points affine
// Sums of products of quantised tensors: how operands are read, products added and sums stored, with a multiplier and a
// shift for each output channel (gpunn/ops/contraction/product_rescaling.py).
// Expects bias, y; scales: multipliers, and from p.SCALES on shifts, counted in V's; finish(sum, multiplier, shift,
// away), which rescales and clamps; p.UP: halves of the channels from this V on are rounded away from zero, those
// before it upwards.

alias Sum = V;

fn add(sum: Sum, x: V, w: V) -> Sum { return sum + x * w; }

// The sums of output channels n from the products with the lower and with the upper bytes of x.
fn of_planes(n: u32, low: V, high: V) -> Sum { return loadv_bias(n) + low + high * 256; }

// The sums of output channels n as stored integers.
fn requantize(n: u32, sum: V) -> V {
  return finishv(sum, loadv_scales(n), loadv_scales(p.SCALES + n), V(T(n >= p.UP)));
}

// Stores the sums of output channels n as element i.
fn put(i: u32, n: u32, sum: Sum) { storev_y(i, requantize(n, sum)); }
