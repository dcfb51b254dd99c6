// Which invocation runs, in a grid of workgroups that is folded over x and y (gpunn/kernel.py, flat_threads).

struct Invocation {
  @builtin(workgroup_id) workgroup: vec3<u32>,
  @builtin(num_workgroups) workgroups: vec3<u32>,
  @builtin(local_invocation_id) local: vec3<u32>,
}

// The number of the workgroup, counted along x first.
fn workgroup_number(at: Invocation) -> u32 { return at.workgroup.y * at.workgroups.x + at.workgroup.x; }

// The end of a loop over parameters. `true_here` is a comparison that is true, which no compiler can know. Where only
// parameters say how often a loop runs, lavapipe of Mesa 22.3 writes it out for their values, and compiles the shader
// again for every dispatch: 50 ms, or 1 to 3 with its cache on disk.
fn end_of_loop(end: u32, true_here: bool) -> u32 { return select(0u, end, true_here); }
