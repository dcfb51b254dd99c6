//!use flat coords
// x is put into y, from a place on that lies as near to `start` as it fits.
// Expects start (i32, or wider), x, y; p.rank, the number of starts, and place, for each of them the room that there is
// and the V's of y by which it counts; p.count, the number of V's of x; p.y_stride and its _hi, counted in V's; what
// lib/coords.wgsl expects. An invocation copies one V.

@compute @workgroup_size(WX, WY, WZ)
fn main(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_id) local: vec3<u32>,
) {
  let i = flat_index(group, groups, local);
  if (i < p.count) {
    var place = along(coords(i), p.y_stride, p.y_stride_hi);
    for (var d = 0u; d < p.rank; d++) {
      place += u32(clamp(int_start(d), 0, load_place(2u * d)) * load_place(2u * d + 1u));
    }
    storev_y(place, loadv_x(i));
  }
}
