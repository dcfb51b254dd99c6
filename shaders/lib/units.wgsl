//!use all_reduce
// A unit n of row m of the batch, i in all: apply(bias[n] + the sum of what the members of a cooperative group bring).
// Expects share(at, m, n, inside), a member's part, which must be called by all of a workgroup and is 0 unless inside;
// finish(i, v), which stores the result; bias; apply(x); p.count, the results; p.units, those of a row.

fn compute(at: Member) {
  let i = at.group;
  let inside = i < p.count;
  let n = i % p.units;
  let sum = all_reduce(at, share(at, i / p.units, n, inside), false);
  if (inside && at.rank == 0u) {
    finish(i, apply(sum + load_bias(n)));
  }
}
