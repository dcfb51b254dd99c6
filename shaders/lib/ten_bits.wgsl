// (above * near + below * far) / 2^20, rounded to nearest, halves away from zero, for images of int16
// (gpunn/ops/vision/resize.py). near + far = 2^10; above and below have up to 26 bits. The sum is 2^10 high + low;
// neither overflows.
fn join_ten_bits(above: i32, below: i32, near: i32, far: i32) -> i32 {
  let low = (above & 1023) * near + (below & 1023) * far;
  let high = (above >> 10u) * near + (below >> 10u) * far + (low >> 10u);
  let past = ((high & 1023) << 10u) + (low & 1023);
  return (high >> 10u) + select(0, 1, past + select(0, 1, high >= 0) > 524288);
}
