// What V's of one element have together: lib/by_fours.wgsl has the same for V's of four.

fn largest_in(v: V) -> T { return v; }

fn sum_in(v: V) -> T { return v; }
