//!use cooperative
// The memories of SVDF's filters (shaders/svdf.wgsl).
// Expects time, state, state_out; entry(sum), recall(v); p.memory, the entries of a memory.

// Add a member's part of recall(state[row, t]) * time[f, t] for t = first ... end - 1, with `newest` in the newest
// place, and move these entries on by one place. `first` is divisible by GROUP_SIZE.
fn add_memory(at: Member, before: T, row: u32, f: u32, newest: T, first: u32, end: u32) -> T {
  let start = row * p.memory;
  var sum = before;
  for (var t = first + at.rank; t < end; t += GROUP_SIZE) {
    var v = newest;
    if (t + 1u < p.memory) {
      v = load_state(start + t);
    } else {
      store_state_out(start + t, entry(T(0)));
    }
    sum += recall(v) * load_time(f * p.memory + t);
    if (t > 0u) {
      store_state_out(start + t - 1u, v);
    }
  }
  return sum;
}
