// What the four elements of a V have together: lib/by_element.wgsl has the same for V's of one.

fn largest_in(v: V) -> T { return max(max(v.x, v.y), max(v.z, v.w)); }

fn sum_in(v: V) -> T { return (v.x + v.y) + (v.z + v.w); }
