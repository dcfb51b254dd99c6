// 24 times a line of A^T m or m A of F(4 x 4, 3 x 3), of the points of lib/winograd_input_4_whole.wgsl, for products
// with weights that gpunn/ops/contraction/winograd_integers.py makes whole. Line has 6 V's, Results 4.

const UNIT: u32 = 954437177u; // 1 / 9, modulo 2^32
const TWOS: u32 = 6u; // results are 576 times the sums

fn transformed(x: Line) -> Results {
  let inner = T(-4) * (x[1] + x[2]);
  let outer = x[3] + x[4];
  let near = T(-4) * (x[1] - x[2]);
  let far = T(2) * (x[3] - x[4]);
  return Results(
    T(6) * x[0] + inner + outer,
    near + far,
    inner + T(4) * outer,
    near + T(4) * far + T(24) * x[5],
  );
}
