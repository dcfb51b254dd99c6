//!use grid
// The entry point for cooperative groups: GROUP_SIZE invocations, a power of two, that lie side by side in a workgroup
// and share one result (gpunn/ops/kernels/cooperative.py). Expects compute(at), which every invocation runs, also those
// of groups past the last result: barriers need all invocations of a workgroup.
// Groups lie along x even if GROUP_SIZE is 1: lavapipe computes eight neighbours along x at once.

// An invocation: the number of its group, its place in the group, its place in the workgroup.
struct Member { group: u32, rank: u32, local: u32 }

@compute @workgroup_size(WX, WY, WZ)
fn main(at: Invocation) {
  let local = at.local.x;
  compute(Member(workgroup_number(at) * (WX / GROUP_SIZE) + local / GROUP_SIZE, local % GROUP_SIZE, local));
}
