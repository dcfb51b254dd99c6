//!use winograd_input
// The input of Winograd's convolution F(2 x 2, 3 x 3): y = B^T d B for each tile's 4 x 4 input pixels d.
// Expects x, y; p.C, p.count (tiles * C); what lib/winograd_input.wgsl expects; EDGE is 2. An
// invocation computes a tile of one V of channels.

struct Line { a: V, b: V, c: V, d: V }

// Of the points 0, 1, -1 and infinity.
fn transformed(x: Line) -> Line { return Line(x.c - x.a, x.b + x.c, x.c - x.b, x.d - x.b); }

fn column(tile: Tile, k: u32, c: u32) -> Line {
  return transformed(
    Line(
      pixel(tile, 0u, k, c),
      pixel(tile, 1u, k, c),
      pixel(tile, 2u, k, c),
      pixel(tile, 3u, k, c),
    ),
  );
}

fn put_line(tile: Tile, k: u32, c: u32, line: Line) {
  let v = transformed(line);
  put_cell(tile, 4u * k, c, v.a);
  put_cell(tile, 4u * k + 1u, c, v.b);
  put_cell(tile, 4u * k + 2u, c, v.c);
  put_cell(tile, 4u * k + 3u, c, v.d);
}

fn compute(i: u32) {
  let number = i / p.C;
  let c = i - number * p.C;
  let tile = tile_number(number);
  let line_a = column(tile, 0u, c);
  let line_b = column(tile, 1u, c);
  let line_c = column(tile, 2u, c);
  let line_d = column(tile, 3u, c);
  put_line(tile, 0u, c, Line(line_a.a, line_b.a, line_c.a, line_d.a));
  put_line(tile, 1u, c, Line(line_a.b, line_b.b, line_c.b, line_d.b));
  put_line(tile, 2u, c, Line(line_a.c, line_b.c, line_c.c, line_d.c));
  put_line(tile, 3u, c, Line(line_a.d, line_b.d, line_c.d, line_d.d));
}
