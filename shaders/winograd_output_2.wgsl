//!use winograd_output
// The result of Winograd's convolution F(2 x 2, 3 x 3): y = apply(A^T m A + bias), m being the 4 x 4 products of a
// tile.
// Expects products, bias [N], p.N; p.count (tiles * N); what lib/winograd_output.wgsl expects;
// EDGE is 2. An invocation computes 2 x 2 pixels of one V of channels.

struct Line { a: V, b: V, c: V, d: V }

struct Pixels { a: V, b: V }

// Of the points of winograd_input_2.wgsl.
fn transformed(x: Line) -> Pixels { return Pixels(x.a + x.b + x.c, x.b - x.c + x.d); }

fn column(tile: Tile, k: u32, n: u32) -> Pixels {
  return transformed(
    Line(
      product(tile, k, n),
      product(tile, 4u + k, n),
      product(tile, 8u + k, n),
      product(tile, 12u + k, n),
    ),
  );
}

fn put_line(tile: Tile, k: u32, n: u32, bias: V, line: Line) {
  let v = transformed(line);
  put_pixel(tile, k, 0u, n, v.a + bias);
  put_pixel(tile, k, 1u, n, v.b + bias);
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
  put_line(tile, 0u, n, bias, Line(line_a.a, line_b.a, line_c.a, line_d.a));
  put_line(tile, 1u, n, bias, Line(line_a.b, line_b.b, line_c.b, line_d.b));
}
