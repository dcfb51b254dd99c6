//!use cooperative
// The products of SVDF's features (shaders/svdf.wgsl).
// Expects x, feature; enter(x); p.depth, the extent of x.

// Add a member's part of enter(x[m, k]) * feature[f, k] for k = first ... end - 1; `first` is divisible by GROUP_SIZE.
fn add_features(at: Member, before: T, m: u32, f: u32, first: u32, end: u32) -> T {
  var sum = before;
  for (var k = first + at.rank; k < end; k += GROUP_SIZE) {
    sum += enter(load_x(m * p.depth + k)) * load_feature(f * p.depth + k);
  }
  return sum;
}
