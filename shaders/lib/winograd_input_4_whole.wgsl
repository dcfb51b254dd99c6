//!use zero_points
// A line of B^T d or d B of F(4 x 4, 3 x 3), of the points 0, 1, -1, 2, -2 and infinity, which give whole numbers,
// without the zero point. Line has 6 V's, and so has Results.

fn transformed(x: Line) -> Results {
  let near = x[3] - T(4) * x[1];
  let far = T(2) * (x[3] - x[1]);
  let inner = x[4] - T(4) * x[2];
  let outer = x[4] - x[2];
  return Results(
    T(4) * x[0] - T(5) * x[2] + x[4],
    inner + near,
    inner - near,
    outer + far,
    outer - far,
    T(4) * x[1] - T(5) * x[3] + x[5],
  );
}
