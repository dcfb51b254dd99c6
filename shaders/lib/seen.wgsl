// How elements that a window sees are stored (unfold.wgsl). lib/seen_bytes.wgsl has the same for single bytes.
// Expects y.

fn put_seen(i: u32, v: V) { storev_y(i, v); }
