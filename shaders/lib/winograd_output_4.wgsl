// A line of A^T m or m A of F(4 x 4, 3 x 3), of the points of lib/winograd_input_4.wgsl. Line has 6 V's, Results 4.

fn transformed(x: Line) -> Results {
  let inner = x[1] + x[2];
  let outer = x[3] + x[4];
  let near = T(0.70710678) * (x[1] - x[2]);
  let far = T(1.41421356) * (x[3] - x[4]);
  return Results(
    x[0] + inner + outer,
    near + far,
    T(0.5) * inner + T(2) * outer,
    T(0.5) * near + T(2) * far + x[5],
  );
}
