//!use flat crop_box
// y = the box of lib/crop_box.wgsl around a part of the points and those that dispatches before this one have seen: for
// more points than shaders/rotated_crop_matrix.wgsl takes.
// Expects y; p.count, 1; what lib/crop_box.wgsl expects. One invocation computes all.

fn compute(i: u32) {
  let box = box_around(turned_axis());
  for (var k = 0u; k < 4u; k++) { store_y(k, box[k]); }
}
