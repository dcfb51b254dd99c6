//!use winograd_output
// The result of Winograd's convolution F(4 x 4, 3 x 3): y = apply(A^T m A + bias), m being the 6 x 6 products of a
// tile.
// Expects products, bias [N], p.N; p.count (tiles * N); what lib/winograd_output.wgsl expects;
// EDGE is 4. An invocation computes 4 x 4 pixels of one V of channels.

struct Line { a: V, b: V, c: V, d: V, e: V, f: V }

struct Pixels { a: V, b: V, c: V, d: V }

// Of the points of winograd_input_4.wgsl.
fn transformed(x: Line) -> Pixels {
  let inner = x.b + x.c;
  let outer = x.d + x.e;
  let near = T(0.70710678) * (x.b - x.c);
  let far = T(1.41421356) * (x.d - x.e);
  return Pixels(
    x.a + inner + outer,
    near + far,
    T(0.5) * inner + T(2) * outer,
    T(0.5) * near + T(2) * far + x.f,
  );
}

fn column(tile: Tile, k: u32, n: u32) -> Pixels {
  return transformed(
    Line(
      product(tile, k, n),
      product(tile, 6u + k, n),
      product(tile, 12u + k, n),
      product(tile, 18u + k, n),
      product(tile, 24u + k, n),
      product(tile, 30u + k, n),
    ),
  );
}

fn put_line(tile: Tile, k: u32, n: u32, bias: V, line: Line) {
  let v = transformed(line);
  put_pixel(tile, k, 0u, n, v.a + bias);
  put_pixel(tile, k, 1u, n, v.b + bias);
  put_pixel(tile, k, 2u, n, v.c + bias);
  put_pixel(tile, k, 3u, n, v.d + bias);
}

fn compute(i: u32) {
  let number = i / p.N;
  let n = i - number * p.N;
  let tile = tile_number(number);
  let bias = loadv_bias(n);
  let line_a = column(tile, 0u, n);
  let line_b = column(tile, 1u, n);
  let line_c = column(tile, 2u, n);
  let line_d = column(tile, 3u, n);
  let line_e = column(tile, 4u, n);
  let line_f = column(tile, 5u, n);
  put_line(tile, 0u, n, bias, Line(line_a.a, line_b.a, line_c.a, line_d.a, line_e.a, line_f.a));
  put_line(tile, 1u, n, bias, Line(line_a.b, line_b.b, line_c.b, line_d.b, line_e.b, line_f.b));
  put_line(tile, 2u, n, bias, Line(line_a.c, line_b.c, line_c.c, line_d.c, line_e.c, line_f.c));
  put_line(tile, 3u, n, bias, Line(line_a.d, line_b.d, line_c.d, line_d.d, line_e.d, line_f.d));
}
