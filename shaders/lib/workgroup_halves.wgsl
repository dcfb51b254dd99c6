//!use workgroup_tile workgroup_matrices
// Products of a tile that a workgroup shares (lib/workgroup_tile.wgsl) in f16: eight of them are added up in f16, and
// these sums in f32.
//
// WGSL leaves open what becomes of an f16 over 65504. So weights are scaled by powers of two until the largest of each
// channel is between 8 and 16: by lib/workgroup_packed_halves.wgsl when the model is compiled, or by
// lib/workgroup_scaled_halves.wgsl. Elements of rows go up to 256: eight products are at most 32768. A step with larger
// ones, infinities or NaN is computed in f32 by the whole workgroup. Weights that large also keep products of small
// elements out of the subnormal numbers, which devices may take for 0.
// Expects FAR, the greatest element of a row or weight whose products are computed in f16, as the bits of an f32; of
// gpunn/ops/kernels/workgroup_tile.py, add_eight(sums, at, four), the products of two vec4s of each row.

alias Held = vec4<f16>;

// Whether a step, the one before or the one behind has elements that are too large.
var<workgroup> far: array<atomic<u32>, 3>;

// Says that no step has any. There must be a barrier before the first one: wgpu does not clear workgroup memory.
fn begin_steps(i: u32) {
  if (i < 3u) { atomicStore(&far[i], 0u); }
}

fn hold(v: vec4<T>, step: u32) -> Held {
  if (any((bitcast<vec4<u32>>(v) & vec4<u32>(0x7fffffffu)) > vec4<u32>(FAR))) { atomicStore(&far[step % 3u], 1u); }
  return Held(v);
}

fn multiply_add(sums: ptr<function, Sums>, i: u32, at: At, step: u32) {
  if (atomicLoad(&far[step % 3u]) == 0u) {
    add_eight(sums, at, 0u);
    add_eight(sums, at, 2u);
  } else {
    add_step(sums, at);
  }
  // All have seen what the step before had. Others may look at this step still, or bring the next one already.
  if (i == 0u) { atomicStore(&far[(step + 2u) % 3u], 0u); }
}

// Weights of a vec4 column for eight elements of the depth.
struct Pair { left: mat4x4<f16>, right: mat4x4<f16> }

fn pair_at(at: At, k: u32, column: u32) -> Pair {
  return Pair(halves_at(at, k, column), halves_at(at, k + 4u, column));
}

fn halves_at(at: At, k: u32, column: u32) -> mat4x4<f16> {
  return mat4x4<f16>(
    held_weights[at.part][k][column][at.column],
    held_weights[at.part][k + 1u][column][at.column],
    held_weights[at.part][k + 2u][column][at.column],
    held_weights[at.part][k + 3u][column][at.column],
  );
}

fn pair_product(weights: Pair, left: Held, right: Held) -> vec4<T> {
  return vec4<T>(weights.left * left + weights.right * right);
}

fn finish_loads(i: u32, loader: ptr<function, Loader>) {}
