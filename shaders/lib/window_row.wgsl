//!use window
// The cells and input channels that a window sees, as one row of p.K elements: element k is input channel k % C of
// window cell k / C. Elements may be vec4s, and C the number of these.
// Expects p.C; p.x_pitch and p.x_first, where pixels of x begin; p.K, below 2^21; p.KW; p.inverse_c and p.inverse_kw: 1
// / C and 1 / KW; what lib/window.wgsl expects.

// An element of the windows: its distance from their corners, in rows, columns and elements of x.
struct Element { row: u32, column: u32, distance: u32, inside: bool }

fn element(k: u32) -> Element {
  let cell = u32((f32(k) + 0.5) * p.inverse_c);
  let ky = u32((f32(cell) + 0.5) * p.inverse_kw);
  let row = ky * p.DH;
  let column = (cell - ky * p.KW) * p.DW;
  return Element(row, column, (row * p.W + column) * p.x_pitch + k - cell * p.C, k < p.K);
}

// Whether an element of the window with this corner lies inside of the image.
fn is_inside(c: Corner, at: Element) -> bool {
  return at.inside && c.row + at.row < p.H && c.column + at.column < p.W;
}

// Where the window with this corner begins in x.
fn window_at(c: Corner) -> u32 { return (c.base + c.row * p.W + c.column) * p.x_pitch + p.x_first; }
