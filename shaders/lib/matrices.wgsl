//!use real_tile
// Steps of four elements of the depth in a register tile (lib/register_tile.wgsl): a step multiplies a vec4 of each row
// by a 4 x 4 matrix of w for each column. Expects w [4 K, 4 W4], and p.W4.

const STEP: u32 = 4u;

alias Factor = vec4<T>;

fn matrix_at(q: u32) -> mat4x4<T> {
  let q1 = q + p.W4;
  let q2 = q1 + p.W4;
  let q3 = q2 + p.W4;
  return mat4x4<T>(load4_w(q), load4_w(q1), load4_w(q2), load4_w(q3));
}

// A sum with a step of the depth, product by product: so each is one fused multiplication and addition, whatever a
// compiler makes of a matrix times a vector.
fn with_step(sum: vec4<T>, w: mat4x4<T>, x: Factor) -> vec4<T> {
  return sum + w[0] * x.x + w[1] * x.y + w[2] * x.z + w[3] * x.w;
}
