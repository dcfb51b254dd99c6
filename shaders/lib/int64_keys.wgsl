//!use int64
// The functions of lib/keys.wgsl for 64-bit integers.

alias Key = I64;

fn latest() -> Key { return I64(0u, 0x80000000u); }

fn sooner(a: Key, b: Key) -> bool { return i64_less(b, a); }
