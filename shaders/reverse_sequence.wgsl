//!use flat
// y = x with the beginning of each sequence in reverse order; a length out of range counts as the nearest inside.
// Expects lengths (i32, or wider), x, y; p.count, the number of V's of y; p.extent, the places of a sequence, which lie
// p.inner V's apart; p.sequences, of which each covers p.span V's at a time. An invocation copies one V.

@compute @workgroup_size(WX, WY, WZ)
fn main(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_id) local: vec3<u32>,
) {
  let i = flat_index(group, groups, local);
  if (i < p.count) {
    let place = i / p.inner % p.extent;
    let length = u32(clamp(int_lengths(i / p.span % p.sequences), 0, i32(p.extent)));
    let mirrored = select(place, length - 1u - place, place < length);
    storev_y(i, loadv_x(i - place * p.inner + mirrored * p.inner));
  }
}
