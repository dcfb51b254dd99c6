//!use workgroup_tile
// Products of a tile that a workgroup shares (lib/workgroup_tile.wgsl) in f32. lib/workgroup_packed_halves.wgsl and
// lib/workgroup_scaled_halves.wgsl have the same functions for products in f16. Expects bias [4 N4].

alias Held = vec4<T>;

alias Scaling = bool;

fn scaling_of(i: u32, row: Row, column: Column) -> Scaling { return false; }

fn hold_row(v: vec4<T>, scaling: Scaling, step: u32) -> Held { return v; }

fn hold_weights(v: vec4<T>, scaling: Scaling, step: u32) -> Held { return v; }

fn multiply_add(sums: ptr<function, Sums>, at: Place, step: u32) {
  add_four(sums, at, 0u);
  add_four(sums, at, 1u);
  add_four(sums, at, 2u);
  add_four(sums, at, 3u);
}

// Adds the products of four elements of the depth, from 4 k on.
fn add_four(sums: ptr<function, Sums>, at: Place, k: u32) {
  let w = at.column + 64u * k;
  let weights = mat4x4<T>(held_weights[w], held_weights[w + 16u], held_weights[w + 32u], held_weights[w + 48u]);
  let x = at.row * 16u + k;
  (*sums)[0] += weights * held_rows[x];
  (*sums)[1] += weights * held_rows[x + 4u];
  (*sums)[2] += weights * held_rows[x + 8u];
  (*sums)[3] += weights * held_rows[x + 12u];
}

// The sums of channels n with their bias.
fn total(cell: Cell, n: u32, sum: vec4<T>) -> vec4<T> { return sum + load4_bias(n); }
