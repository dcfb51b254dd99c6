// Which invocation runs, in a grid of workgroups that is folded over x and y (gpunn/kernel.py, flat_threads).

struct Invocation {
  @builtin(workgroup_id) workgroup: vec3<u32>,
  @builtin(num_workgroups) workgroups: vec3<u32>,
  @builtin(local_invocation_id) local: vec3<u32>,
}

// The number of the workgroup, counted along x first.
fn workgroup_number(at: Invocation) -> u32 { return at.workgroup.y * at.workgroups.x + at.workgroup.x; }
