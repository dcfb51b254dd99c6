// Sums of products of quantised tensors as stored integers, for all multipliers and shifts. lib/estimated.wgsl has the
// same functions for some.
// Expects scales, p.SCALES: see lib/requantize.wgsl; finish(sum, multiplier, shift, away), which rescales and clamps;
// p.UP: halves of the channels from this V on are rounded away from zero, those before it upwards.

struct Ending { multiplier: V, shift: V, away: V }

fn ending(n: u32) -> Ending { return Ending(loadv_scales(n), loadv_scales(p.SCALES + n), V(T(n >= p.UP))); }

fn rescaled(sum: V, by: Ending) -> V { return finishv(sum, by.multiplier, by.shift, by.away); }
