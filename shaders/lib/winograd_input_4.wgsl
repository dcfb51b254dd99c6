// A line of B^T d or d B of F(4 x 4, 3 x 3), of the points 0, 1/sqrt(2), -1/sqrt(2), sqrt(2), -sqrt(2) and infinity,
// which keep rounding errors small. Line has 6 V's, and so has Results.

fn enter(x: V) -> V { return x; }

fn transformed(x: Line) -> Results {
  let near = T(0.70710678) * (x[3] - T(2) * x[1]);
  let far = T(1.41421356) * (x[3] - T(0.5) * x[1]);
  let inner = x[4] - T(2) * x[2];
  let outer = x[4] - T(0.5) * x[2];
  return Results(
    x[0] - T(2.5) * x[2] + x[4],
    inner + near,
    inner - near,
    outer + far,
    outer - far,
    x[1] - T(2.5) * x[3] + x[5],
  );
}
