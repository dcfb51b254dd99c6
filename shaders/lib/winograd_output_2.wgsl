// A line of A^T m or m A of F(2 x 2, 3 x 3), of the points of lib/winograd_input_2.wgsl. Line has 4 V's, Results 2.

fn transformed(x: Line) -> Results { return Results(x[0] + x[1] + x[2], x[1] - x[2] + x[3]); }
