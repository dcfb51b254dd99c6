//!use flat
// Invocations that share a result: TEAM of them, a power of two, side by side in a workgroup (ops/kernels/team.py).
// Along x even where each has a result of its own: lavapipe computes eight neighbours along x at once.

// The number of an invocation in its team.
fn member(local: vec3<u32>) -> u32 { return local.x % TEAM; }

// The number of a team.
fn team_of(group: vec3<u32>, groups: vec3<u32>, local: vec3<u32>) -> u32 {
  return flat_group(group, groups) * (WX / TEAM) + local.x / TEAM;
}
