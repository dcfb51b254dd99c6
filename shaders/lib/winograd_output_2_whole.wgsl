// Twice a line of A^T m or m A of F(2 x 2, 3 x 3), of the points of lib/winograd_input_2.wgsl, for products with
// weights that gpunn/ops/contraction/winograd_integers.py makes whole. Line has 4 V's, Results 2.

const UNIT: u32 = 1u;
const TWOS: u32 = 2u; // results are four times the sums

fn transformed(x: Line) -> Results {
  let both = x[1] - x[2];
  return Results(x[1] + x[2] - T(2) * x[0], both + T(2) * x[3]);
}
