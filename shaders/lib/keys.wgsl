// Keys of numbers in an order (lib/order.wgsl): the greater the key, the sooner the number comes. For int64:
// lib/int64_keys.wgsl.

alias Key = i32;

fn latest() -> Key { return -0x7fffffff - 1; }

fn sooner(a: Key, b: Key) -> bool { return a > b; }
