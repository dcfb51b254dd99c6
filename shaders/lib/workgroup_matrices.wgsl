// Weights of a tile that a workgroup shares (lib/workgroup_tile.wgsl), as matrices of reals.

alias Weights = mat4x4<T>;

fn weights_at(place: u32) -> Weights {
  return Weights(
    vec4<T>(held_weights[place]),
    vec4<T>(held_weights[place + TILE_COLUMNS]),
    vec4<T>(held_weights[place + 2u * TILE_COLUMNS]),
    vec4<T>(held_weights[place + 3u * TILE_COLUMNS]),
  );
}

fn product(weights: Weights, held: Held) -> vec4<T> { return weights * vec4<T>(held); }
