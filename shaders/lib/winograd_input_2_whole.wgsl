//!use zero_points
// lib/winograd_input_2.wgsl for quantised tensors: whole numbers, without the zero point.

fn transformed(x: Line) -> Results { return Results(x[2] - x[0], x[1] + x[2], x[2] - x[1], x[3] - x[1]); }
