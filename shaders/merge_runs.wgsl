//!use flat sorted
// merged = sorted, with each two neighbouring runs of p.run sorted updates made one; those of the first come first.
// Expects sorted, merged; p.updates. An invocation moves one update.

@compute @workgroup_size(WX, WY, WZ)
fn main(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_id) local: vec3<u32>,
) {
  let i = flat_index(group, groups, local);
  if (i >= p.updates) { return; }
  let row = load_sorted(2u * i);
  let run = i / p.run;
  let other = min((run ^ 1u) * p.run, p.updates);
  let count = min(p.run, p.updates - other);
  var place = i;
  if (run % 2u == 0u) {
    place += before(row, other, count);
  } else {
    place += before(row + 1, other, count) - p.run;
  }
  store_merged(2u * place, row);
  store_merged(2u * place + 1u, load_sorted(2u * i + 1u));
}
