// Steps of one element along rows of x. Expects x [M, K]; p.x_pitch and p.x_first, where its rows begin.
// lib/row_steps.wgsl and lib/ragged_row_steps.wgsl have the same functions for steps of four.

fn place_of_row(m: u32) -> u32 { return m * p.x_pitch + p.x_first; }

fn row_step(place: u32, k: u32) -> T { return load_x(place + k); }
