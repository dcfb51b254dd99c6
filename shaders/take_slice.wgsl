//!use flat coords starts
// y is a slice of x, from slice_start() on.
// Expects x, y; p.count, the number of V's of y; p.x_stride and its _hi, counted in V's; what lib/coords.wgsl and
// lib/starts.wgsl expect. An invocation copies one V.

@compute @workgroup_size(WX, WY, WZ)
fn main(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_id) local: vec3<u32>,
) {
  let i = flat_index(group, groups, local);
  if (i < p.count) {
    storev_y(i, loadv_x(slice_start() + along(coords(i), p.x_stride, p.x_stride_hi)));
  }
}
