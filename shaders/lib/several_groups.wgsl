// Where the means and mean squares of a V of four are, whose elements may be of several groups: for each element of a
// line there is one of each, and a group has p.group elements of a line. lib/one_group.wgsl has the same for other V's.
// Expects mean, squares, p.outputs and p.line, as shaders/standardize.wgsl says.

alias Results = vec4<u32>;

fn results_of(batch: u32, place: u32) -> Results {
  let elements = place % p.line * 4u + vec4<u32>(0u, 1u, 2u, 3u);
  return batch * p.line * 4u + elements / p.group * p.group;
}

fn mean_of(results: Results, part: u32, k: u32) -> V {
  let at = results + part * p.outputs * 4u + k;
  return V(load_mean(at.x), load_mean(at.y), load_mean(at.z), load_mean(at.w));
}

fn squares_of(results: Results, part: u32, k: u32) -> V {
  let at = results + part * p.outputs * 4u + k;
  return V(load_squares(at.x), load_squares(at.y), load_squares(at.z), load_squares(at.w));
}
