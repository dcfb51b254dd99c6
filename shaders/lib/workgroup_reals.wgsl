//!use workgroup_tile workgroup_matrices
// Products of a tile that a workgroup shares (lib/workgroup_tile.wgsl) in f32. lib/workgroup_packed_halves.wgsl and
// lib/workgroup_scaled_halves.wgsl have the same functions for products in f16, lib/workgroup_words.wgsl for integers.
// Expects bias [4 N4].

alias Held = vec4<T>;

alias Loader = bool;

fn loader_of(i: u32, row: Row, column: Column) -> Loader { return false; }

fn hold_row(v: vec4<T>, load: u32, loader: ptr<function, Loader>, step: u32) -> Held { return v; }

fn hold_weights(v: vec4<T>, loader: ptr<function, Loader>, step: u32) -> Held { return v; }

fn multiply_add(sums: ptr<function, Sums>, i: u32, at: At, step: u32) { add_step(sums, at); }

fn finish_loads(i: u32, loader: ptr<function, Loader>) {}

// The sums of channels n with their bias.
fn total(cell: Cell, n: u32, sum: vec4<T>) -> vec4<T> { return sum + load4_bias(n); }
