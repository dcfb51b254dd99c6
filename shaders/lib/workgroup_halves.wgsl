//!use workgroup_tile
// Products of a tile that a workgroup shares (lib/workgroup_tile.wgsl) in f16: eight of them are added up in f16, and
// these sums in f32.
//
// WGSL leaves open what becomes of an f16 over 65504. So weights are scaled by powers of two until the largest of each
// channel is between 8 and 16: by lib/workgroup_packed_halves.wgsl when the model is compiled, or by
// lib/workgroup_scaled_halves.wgsl. Elements of rows go up to 256: eight products are at most 32768. A step with larger
// ones, infinities or NaN is computed in f32 by the whole workgroup. Weights that large also keep products of small
// elements out of the subnormal numbers, which devices may take for 0.
// Expects FAR, the greatest element of a row or weight whose products are computed in f16, as the bits of an f32.

alias Held = vec4<f16>;

// Whether a step, or the next one, has elements that are too large.
var<workgroup> far: array<atomic<u32>, 2>;

// Says that the first step has none. There must be a barrier before that step: wgpu does not clear workgroup memory.
fn begin_steps(i: u32) {
  if (i == 0u) { atomicStore(&far[0], 0u); }
}

fn hold(v: vec4<T>, step: u32) -> Held {
  if (any((bitcast<vec4<u32>>(v) & vec4<u32>(0x7fffffffu)) > vec4<u32>(FAR))) { atomicStore(&far[step % 2u], 1u); }
  return Held(v);
}

fn multiply_add(sums: ptr<function, Sums>, at: Place, step: u32) {
  if (atomicLoad(&far[step % 2u]) == 0u) {
    add_eight(sums, at, 0u);
    add_eight(sums, at, 2u);
  } else {
    add_four(sums, at, 0u);
    add_four(sums, at, 1u);
    add_four(sums, at, 2u);
    add_four(sums, at, 3u);
  }
  // All have seen what the last step had, and none looks at the next one yet.
  if (at.row + at.column == 0u) { atomicStore(&far[(step + 1u) % 2u], 0u); }
}

fn weights_at(w: u32) -> mat4x4<f16> {
  return mat4x4<f16>(held_weights[w], held_weights[w + 16u], held_weights[w + 32u], held_weights[w + 48u]);
}

// Adds the products of eight elements of the depth, from 4 k on.
fn add_eight(sums: ptr<function, Sums>, at: Place, k: u32) {
  let w = at.column + 64u * k;
  let left = weights_at(w);
  let right = weights_at(w + 64u);
  let x = at.row * 16u + k;
  (*sums)[0] += vec4<T>(left * held_rows[x] + right * held_rows[x + 1u]);
  (*sums)[1] += vec4<T>(left * held_rows[x + 4u] + right * held_rows[x + 5u]);
  (*sums)[2] += vec4<T>(left * held_rows[x + 8u] + right * held_rows[x + 9u]);
  (*sums)[3] += vec4<T>(left * held_rows[x + 12u] + right * held_rows[x + 13u]);
}

// Adds the products of four elements of the depth, from 4 k on, in f32.
fn add_four(sums: ptr<function, Sums>, at: Place, k: u32) {
  let w = at.column + 64u * k;
  let weights = mat4x4<T>(
    vec4<T>(held_weights[w]),
    vec4<T>(held_weights[w + 16u]),
    vec4<T>(held_weights[w + 32u]),
    vec4<T>(held_weights[w + 48u]),
  );
  let x = at.row * 16u + k;
  (*sums)[0] += weights * vec4<T>(held_rows[x]);
  (*sums)[1] += weights * vec4<T>(held_rows[x + 4u]);
  (*sums)[2] += weights * vec4<T>(held_rows[x + 8u]);
  (*sums)[3] += weights * vec4<T>(held_rows[x + 12u]);
}
