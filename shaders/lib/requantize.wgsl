//!use zero_points affine
// Sums of products of quantised tensors: how operands are read, products added and sums stored, with a multiplier and a
// shift for each output channel (gpunn/ops/contraction/product_rescaling.py).
// Expects bias, y; scales: multipliers, and from p.SCALES on shifts, counted in V's; what lib/rounded.wgsl or
// lib/estimated.wgsl has: Ending, ending(n), what the sums of output channels n are rescaled with; rescaled(sum, by),
// the stored integers. Where several sums have the same channels, make their Ending once: loads take CPUs as long as
// all the arithmetic.

alias Sum = V;

fn add(sum: Sum, x: V, w: V) -> Sum { return sum + x * w; }

// The sums of output channels n from the products with the lower and with the upper bytes of x.
fn of_planes(n: u32, low: V, high: V) -> Sum { return loadv_bias(n) + low + high * 256; }

fn put_by(i: u32, sum: Sum, by: Ending) { storev_y(i, rescaled(sum, by)); }

// The sums of output channels n as stored integers.
fn requantize(n: u32, sum: V) -> V { return rescaled(sum, ending(n)); }

// Stores the sums of output channels n as element i.
fn put(i: u32, n: u32, sum: Sum) { put_by(i, sum, ending(n)); }
