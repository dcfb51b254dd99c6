// Two neighbouring rows or columns of an image, and points between them.
// Expects x, by V's; p.channels in V's.

struct Taps {
  first: u32,
  second: u32,
  near: T, // the weight of the first
  far: T, // the weight of the second
}

// The point between two columns of a row, which is counted over all images, at a channel.
fn between(row: u32, across: Taps, channel: u32) -> V {
  let first = loadv_x((row + across.first) * p.channels + channel);
  let second = loadv_x((row + across.second) * p.channels + channel);
  return first * across.near + second * across.far;
}
