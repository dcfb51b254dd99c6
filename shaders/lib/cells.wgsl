// How many of `size` places from `first` on, which may lie before 0, are below `extent`.
fn inside(first: u32, size: u32, extent: u32) -> u32 {
  let begin = i32(first);
  return u32(max(min(begin + i32(size), i32(extent)) - max(begin, 0), 0));
}
