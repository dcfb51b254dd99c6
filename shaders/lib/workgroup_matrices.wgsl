// Weights of a tile that a workgroup shares (lib/workgroup_tile.wgsl), as matrices of reals.

alias Weights = mat4x4<T>;

fn weights_at(at: At, k: u32, column: u32) -> Weights {
  return Weights(
    vec4<T>(held_weights[at.part][k][column][at.column]),
    vec4<T>(held_weights[at.part][k + 1u][column][at.column]),
    vec4<T>(held_weights[at.part][k + 2u][column][at.column]),
    vec4<T>(held_weights[at.part][k + 3u][column][at.column]),
  );
}

// A sum with the products of four elements of the depth, one by one: each is one fused multiplication and addition,
// whatever a compiler makes of a matrix times a vector.
fn with_products(sum: vec4<T>, w: Weights, held: Held) -> vec4<T> {
  let x = vec4<T>(held);
  return sum + w[0] * x.x + w[1] * x.y + w[2] * x.z + w[3] * x.w;
}
