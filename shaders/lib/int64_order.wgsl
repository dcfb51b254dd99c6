//!use int64_keys
// The function of lib/order.wgsl for 64-bit integers. Expects DESCENDING (1: the greatest number comes first, 0: the
// smallest).

fn order(x: I64) -> Key { return select(~x, x, DESCENDING == 1u); }
