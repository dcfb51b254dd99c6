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

fn product(weights: Weights, held: Held) -> vec4<T> { return weights * vec4<T>(held); }
