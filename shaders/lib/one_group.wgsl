// Where the mean and the mean square of a V are, whose elements have one of each, or are side by side in groups of
// their own: lib/several_groups.wgsl has the same for V's of others. Expects mean, squares, p.outputs, p.line and
// p.group, as shaders/standardize.wgsl says.

alias Results = u32;

fn results_of(batch: u32, place: u32) -> Results { return batch * (p.line / p.group) + place % p.line / p.group; }

fn mean_of(results: Results, part: u32, k: u32) -> V { return loadv_mean(results + part * p.outputs); }

fn squares_of(results: Results, part: u32, k: u32) -> V { return loadv_squares(results + part * p.outputs); }
