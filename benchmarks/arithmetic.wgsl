//!use flat
// y = the sum of 64 numbers, which begin at x, x + 1, ... x + 15 (four of each) and become v * p.factor + p.step,
// 4 p.rounds times: nothing but multiplications and additions, of which 16 do not wait for one another.
// Expects x, y; p.count; p.factor, p.step, p.rounds. An invocation computes one y.

struct Four { a: vec4<T>, b: vec4<T>, c: vec4<T>, d: vec4<T> }

fn begin(x: T) -> Four { return Four(vec4<T>(x), vec4<T>(x + 1.0), vec4<T>(x + 2.0), vec4<T>(x + 3.0)); }

fn step(v: vec4<T>) -> vec4<T> { return fma(v, vec4<T>(p.factor), vec4<T>(p.step)); }

fn next(v: Four) -> Four { return Four(step(v.a), step(v.b), step(v.c), step(v.d)); }

fn total(v: Four) -> vec4<T> { return v.a + v.b + v.c + v.d; }

fn compute(i: u32) {
  let x = load_x(i);
  var p0 = begin(x);
  var p1 = begin(x + 4.0);
  var p2 = begin(x + 8.0);
  var p3 = begin(x + 12.0);
  for (var k = 0u; k < p.rounds; k++) {
    p0 = next(next(next(next(p0))));
    p1 = next(next(next(next(p1))));
    p2 = next(next(next(next(p2))));
    p3 = next(next(next(next(p3))));
  }
  let sums = total(p0) + total(p1) + total(p2) + total(p3);
  store_y(i, sums.x + sums.y + sums.z + sums.w);
}
