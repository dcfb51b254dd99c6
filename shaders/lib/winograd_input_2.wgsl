// A line of B^T d or d B of F(2 x 2, 3 x 3), of the points 0, 1, -1 and infinity. Line has 4 V's, and so has Results.

fn enter(x: V) -> V { return x; }

fn transformed(x: Line) -> Results { return Results(x[2] - x[0], x[1] + x[2], x[2] - x[1], x[3] - x[1]); }
