//!use flat upper elementary int64
// y = random numbers of the generator Philox4x32-10 (Salmon et al., Parallel random numbers: as easy as 1, 2, 3, 2011),
// four of each block of 128 bits, from block `drawn` on: uniform in 0 ... 1, or standard normal by Box and Muller.
// Expects drawn, an int64, y; p.count, the blocks; p.elements of y; p.key and p.high, two words each: the seeds;
// NORMAL, 1 for normal numbers. An invocation computes one block.

fn block(number: I64) -> vec4<u32> {
  var even = vec2<u32>(number.x, p.high.x); // words 0 and 2
  var odd = vec2<u32>(number.y, p.high.y);
  var key = p.key;
  for (var round = 0u; round < 10u; round++) {
    let above = vec2<u32>(upper(even.y, 0xcd9e8d57u), upper(even.x, 0xd2511f53u));
    let below = vec2<u32>(even.y * 0xcd9e8d57u, even.x * 0xd2511f53u);
    even = above ^ odd ^ key;
    odd = below;
    key += vec2<u32>(0x9e3779b9u, 0xbb67ae85u);
  }
  return vec4<u32>(even.x, odd.x, even.y, odd.y);
}

// 23 bits of each word, as a fraction.
fn uniform_numbers(words: vec4<u32>) -> vec4<f32> {
  return bitcast<vec4<f32>>((words & vec4<u32>(0x7fffffu)) | vec4<u32>(0x3f800000u)) - 1.0;
}

// Two normal numbers of two uniform ones; 1e-7 stands for what has no logarithm.
fn normal_numbers(u: vec2<f32>) -> vec2<f32> {
  let radius = root(-2.0 * logarithm(max(u.x, 1e-7)));
  let angle = 6.2831855 * u.y;
  return radius * vec2<f32>(wave(angle, 0u), wave(angle, 1u));
}

fn compute(i: u32) {
  var numbers = uniform_numbers(block(i64_add(load_drawn(0u), I64(i, 0u))));
  if (NORMAL == 1u) {
    numbers = vec4<f32>(normal_numbers(numbers.xy), normal_numbers(numbers.zw));
  }
  for (var k = 0u; k < min(4u, p.elements - 4u * i); k++) {
    store_y(4u * i + k, numbers[k]);
  }
}
