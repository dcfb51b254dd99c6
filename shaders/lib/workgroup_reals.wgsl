//!use workgroup_tile
// Products of a tile that a workgroup shares (lib/workgroup_tile.wgsl) in f32. lib/workgroup_packed_halves.wgsl and
// lib/workgroup_scaled_halves.wgsl have the same functions for products in f16, where tiles have one slice.
// Expects bias [4 N4].

alias Held = vec4<T>;

alias Scaling = bool;

fn scaling_of(i: u32, row: Row, column: Column) -> Scaling { return false; }

fn hold_row(v: vec4<T>, scaling: Scaling, step: u32) -> Held { return v; }

fn hold_weights(v: vec4<T>, scaling: Scaling, step: u32) -> Held { return v; }

fn multiply_add(sums: ptr<function, Sums>, i: u32, rows: u32, weights: u32, step: u32) {
  add_step(sums, rows, weights);
}

// Sums of slices lie where rows did.
fn hand_sum(place: u32, sum: vec4<T>) { held_rows[place] = sum; }

fn handed_sum(place: u32) -> vec4<T> { return held_rows[place]; }

// The sums of channels n with their bias.
fn total(cell: Cell, n: u32, sum: vec4<T>) -> vec4<T> { return sum + load4_bias(n); }
