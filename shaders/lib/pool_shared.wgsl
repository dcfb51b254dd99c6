//!use fold_members
// The result of a pool that GROUP_SIZE invocations, a cooperative group (lib/cooperative.wgsl), share.
// Expects combine(s, v).

// The combination of the parts of all members; the member of rank 0 gets it. All of a workgroup must call it.
fn joined(at: Member, part: V) -> V { return folded(at, part); }
