//!use workgroup_halves
// Products in f16 (lib/workgroup_halves.wgsl) with weights that are scaled when they are packed.
// Expects scales [4 N4], by which sums are multiplied; bias [4 N4].

alias Loader = bool;

fn loader_of(i: u32, row: Row, column: Column) -> Loader {
  begin_steps(i);
  workgroupBarrier();
  return false;
}

fn hold_row(v: vec4<T>, load: u32, loader: ptr<function, Loader>, step: u32) -> Held { return hold(v, step); }

fn hold_weights(v: vec4<T>, loader: ptr<function, Loader>, step: u32) -> Held { return hold(v, step); }

// The sums of channels n, with their own scale and their bias.
fn total(cell: Cell, n: u32, sum: vec4<T>) -> vec4<T> { return sum * load4_scales(n) + load4_bias(n); }
