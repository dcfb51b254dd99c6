//!use winograd_input
// The input of Winograd's convolution F(4 x 4, 3 x 3): y = B^T d B for each tile's 6 x 6 input pixels d.
// Expects x, y; p.C, p.count (tiles * C); what lib/winograd_input.wgsl expects; EDGE is 4. An
// invocation computes a tile of one V of channels.

struct Line { a: V, b: V, c: V, d: V, e: V, f: V }

// Of the points 0, 1/sqrt(2), -1/sqrt(2), sqrt(2), -sqrt(2) and infinity, which keep rounding errors small.
fn transformed(x: Line) -> Line {
  let near = T(0.70710678) * (x.d - T(2) * x.b);
  let far = T(1.41421356) * (x.d - T(0.5) * x.b);
  let inner = x.e - T(2) * x.c;
  let outer = x.e - T(0.5) * x.c;
  return Line(
    x.a - T(2.5) * x.c + x.e,
    inner + near,
    inner - near,
    outer + far,
    outer - far,
    x.b - T(2.5) * x.d + x.f,
  );
}

fn column(tile: Tile, k: u32, c: u32) -> Line {
  return transformed(
    Line(
      pixel(tile, 0u, k, c),
      pixel(tile, 1u, k, c),
      pixel(tile, 2u, k, c),
      pixel(tile, 3u, k, c),
      pixel(tile, 4u, k, c),
      pixel(tile, 5u, k, c),
    ),
  );
}

fn put_line(tile: Tile, k: u32, c: u32, line: Line) {
  let v = transformed(line);
  put_cell(tile, 6u * k, c, v.a);
  put_cell(tile, 6u * k + 1u, c, v.b);
  put_cell(tile, 6u * k + 2u, c, v.c);
  put_cell(tile, 6u * k + 3u, c, v.d);
  put_cell(tile, 6u * k + 4u, c, v.e);
  put_cell(tile, 6u * k + 5u, c, v.f);
}

fn compute(i: u32) {
  let number = i / p.C;
  let c = i - number * p.C;
  let tile = tile_number(number);
  let line_a = column(tile, 0u, c);
  let line_b = column(tile, 1u, c);
  let line_c = column(tile, 2u, c);
  let line_d = column(tile, 3u, c);
  let line_e = column(tile, 4u, c);
  let line_f = column(tile, 5u, c);
  put_line(tile, 0u, c, Line(line_a.a, line_b.a, line_c.a, line_d.a, line_e.a, line_f.a));
  put_line(tile, 1u, c, Line(line_a.b, line_b.b, line_c.b, line_d.b, line_e.b, line_f.b));
  put_line(tile, 2u, c, Line(line_a.c, line_b.c, line_c.c, line_d.c, line_e.c, line_f.c));
  put_line(tile, 3u, c, Line(line_a.d, line_b.d, line_c.d, line_d.d, line_e.d, line_f.d));
  put_line(tile, 4u, c, Line(line_a.e, line_b.e, line_c.e, line_d.e, line_e.e, line_f.e));
  put_line(tile, 5u, c, Line(line_a.f, line_b.f, line_c.f, line_d.f, line_e.f, line_f.f));
}
