//!use all_reduce
// y = finish(i, sum), where a cooperative group (lib/cooperative.wgsl) adds up the terms of result i in several
// dispatches (gpunn/ops/kernels/chain.py). All but the last one keep the sum of each member, so every member adds its
// terms in the order of one dispatch.
// Expects y; LAST (1: the last dispatch); before, of an element for each member, or absent; resume(sum, before), which
// chooses sum or before; add_part(at, before, inside), a member's sum with its terms of this dispatch, which are none
// unless inside; finish(i, sum); p.count, the results.

fn compute(at: Member) {
  let i = at.group;
  let inside = i < p.count;
  let own = i * GROUP_SIZE + at.rank;
  let sum = add_part(at, resume(T(0), load_before(own)), inside);
  if (LAST == 1u) {
    let all = all_reduce(at, sum, false);
    if (inside && at.rank == 0u) { store_y(i, finish(i, all)); }
  } else if (inside) {
    store_y(own, sum);
  }
}
