//!use int64
// The functions of lib/order.wgsl for 64-bit integers. Expects DESCENDING (1: the greatest number comes first, 0: the
// smallest).

alias Key = I64;

fn latest() -> Key { return I64(0u, 0x80000000u); }

fn order(x: I64) -> Key { return select(~x, x, DESCENDING == 1u); }

fn sooner(a: Key, b: Key) -> bool { return i64_less(b, a); }
