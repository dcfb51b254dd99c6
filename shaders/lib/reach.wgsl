// The first window along an axis that reaches `place`, which counts from the start of the first window.
fn first_window(place: u32, size: u32, stride: u32) -> u32 {
  return select(0u, (place - size) / stride + 1u, place >= size);
}
