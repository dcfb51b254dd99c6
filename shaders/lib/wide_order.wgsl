//!use wide
// lib/order.wgsl for 64-bit integers. Expects DESCENDING (1: the greatest comes first, 0: the smallest).

alias Key = Wide;

fn latest() -> Key { return Wide(0u, 0x80000000u); }

fn order(x: Wide) -> Key { return select(~x, x, DESCENDING == 1u); }

fn sooner(a: Key, b: Key) -> bool { return wide_less(b, a); }
