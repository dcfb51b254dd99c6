// The number of a workgroup, or of an invocation, in a grid folded over x and y (gpunn/kernel.py, flat_threads).
// Expects WX, the invocations of a workgroup along x.

fn flat_group(group: vec3<u32>, groups: vec3<u32>) -> u32 {
  return group.y * groups.x + group.x;
}

fn flat_index(group: vec3<u32>, groups: vec3<u32>, local: vec3<u32>) -> u32 {
  return flat_group(group, groups) * WX + local.x;
}
