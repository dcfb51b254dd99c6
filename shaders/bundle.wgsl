//!use words
// A bundle: one workgroup runs consecutive small dispatches, on operands in memory and constants in a table
// (gpunn/backends/webgpu/bundle_writer.py).
// Expects memory and table, as memory_data and table_data; arenas, as arena0_data and so on; run_rounds(local), which
// every invocation calls; p.begin and p.end, the rounds that run.

@compute @workgroup_size(WX, WY, WZ)
fn main(@builtin(local_invocation_id) local: vec3<u32>) {
  run_rounds(local);
}
