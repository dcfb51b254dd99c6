// Steps of four along rows of x whose length is divisible by 4. Expects x [M, 4 K4]; p.x_pitch and
// p.x_first, where its rows begin, in fours.
// lib/ragged_row_steps.wgsl has the same functions for rows of other lengths.

fn place_of_row(m: u32) -> u32 { return m * p.x_pitch + p.x_first; }

fn row_step(place: u32, k: u32) -> vec4<T> { return row4_x(place, column4_x(k)); }
