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

// What the sums of output channels n are rescaled with. Where several have the same channels, load it once: loads take
// CPUs as long as all the arithmetic.
struct Ending { multiplier: V, shift: V, away: V }

fn ending(n: u32) -> Ending { return Ending(loadv_scales(n), loadv_scales(p.SCALES + n), V(T(n >= p.UP))); }

// Sums as stored integers.
fn rescaled(sum: V, by: Ending) -> V { return finishv(sum, by.multiplier, by.shift, by.away); }

fn put_by(i: u32, sum: Sum, by: Ending) { storev_y(i, rescaled(sum, by)); }

// The sums of output channels n as stored integers.
fn requantize(n: u32, sum: V) -> V { return rescaled(sum, ending(n)); }

// Stores the sums of output channels n as element i.
fn put(i: u32, n: u32, sum: Sum) { put_by(i, sum, ending(n)); }
