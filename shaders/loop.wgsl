//!use words
// Rounds of a loop: one workgroup runs the kernels of its body one after the other, on operands in memory and
// constants in a table, with a word for each element, two for int64 (gpunn/backends/webgpu/loop_shader.py).
// Expects memory and table, as memory_data and table_data; what the kernel brings and every invocation calls:
// synchronise(), begin_loop(local), goes_on(local), which tells all the same, run_round(local), end_loop(local, more);
// p.rounds, the most that there are; p.first and p.last, 1 in the first and the last dispatch of a loop.

@compute @workgroup_size(WX, WY, WZ)
fn main(@builtin(local_invocation_id) local: vec3<u32>) {
  if (p.first == 1u) {
    begin_loop(local);
    synchronise();
  }
  var more = true;
  for (var k = 0u; k < p.rounds; k++) {
    more = goes_on(local);
    if (!more) { break; }
    run_round(local);
  }
  if (more) { more = goes_on(local); }
  if (p.last == 1u) { end_loop(local, more); }
}
