// Where a window over depth, height and width lies in its input [batch, D, H, W, ...]: what lib/window.wgsl says of
// height and width. Row ky of the window is row ky % KROWS of its plane ky / KROWS.
// Expects p.input, p.result, p.stride, p.dilation, p.before, in .xyz for depth, height and width; KROWS, the rows of a
// plane of the window. Places before the first plane, row or column wrap to large numbers, so one comparison tells
// inside from outside.

const OUTSIDE: u32 = 0xffffffffu;

// The first cell of a window, and its volume's first plane.
struct Corner { plane: u32, row: u32, column: u32, base: u32 }

// The first cell of the window of output cell m of [batch, D, H, W].
fn corner(m: u32) -> Corner {
  let extent = vec3<u32>(p.result.xyz);
  let line = m / extent.z;
  let plane = line / extent.y;
  let volume = plane / extent.x;
  let at = vec3<u32>(plane - volume * extent.x, line - plane * extent.y, m - line * extent.z);
  let first = at * vec3<u32>(p.stride.xyz) - vec3<u32>(p.before.xyz);
  return Corner(first.x, first.y, first.z, volume * u32(p.input.x));
}

// The input cell that window cell (ky, kx) sees, or OUTSIDE.
fn cell(c: Corner, ky: u32, kx: u32) -> u32 {
  let kd = ky / KROWS;
  let extent = vec3<u32>(p.input.xyz);
  let at = vec3<u32>(c.plane, c.row, c.column) + vec3<u32>(kd, ky - kd * KROWS, kx) * vec3<u32>(p.dilation.xyz);
  return select(OUTSIDE, ((c.base + at.x) * extent.y + at.y) * extent.z + at.z, all(at < extent));
}
