//!use flat
// y[i] = x[index[i]], whole rows; an index out of range reads the nearest row.
// Expects index (i32), x, y; p.count, the number of V's of y; p.row, the V's of a row; p.rows, the rows of x.
// An invocation copies one V.

@compute @workgroup_size(WX, WY, WZ)
fn main(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_id) local: vec3<u32>,
) {
  let i = flat_index(group, groups, local);
  if (i < p.count) {
    let row = u32(clamp(load_index(i / p.row), 0, i32(p.rows) - 1));
    storev_y(i, loadv_x(row * p.row + i % p.row));
  }
}
