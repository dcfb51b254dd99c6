//!use grid
// Depthwise convolution over height and width, in strips: an invocation computes p.COLUMNS columns of up to p.ROWS
// rows, of one V of channels, and walks down its rows. It keeps the window in registers, and the sums of all windows
// that the last lines of the input enter, so it reads each line once. Where windows are closer together than the stride
// wants, some have no place in the result: their sums are not stored.
// Expects x [batch, H, W, C], w [KH, KW, N], bias [N] and y [batch, OH, OW, N]; C and N count V's, N = C * MULTIPLIER;
// the functions of lib/real.wgsl and lib/chain.wgsl; p.H, p.W, p.OH, p.OW, p.SH, p.SW (stride), p.DH, p.DW (dilation:
// input pixels between neighbours of a line, and between lines), p.PT, p.PL (padding), p.x_pitch and p.x_first (where
// pixels of x begin), p.N, p.MULTIPLIER; p.APART (rows, columns of the result between those of a strip), p.STEPS
// (windows from one row of a strip to the next, and from one column to the next), p.TILES and p.STRIPS (strips along x
// and y), p.count (N * TILES * STRIPS * batch); p.TAPS (KH * KW: compilers would write out a loop over a constant, and
// take long for its loads); LINES (of the input from a window to the one below), LIVE (rows of windows that a line may
// enter), TAPS_AT_ONCE; what gpunn/ops/contraction/depthwise_strip.py writes: Taps, Sums, Columns, columns_from(),
// push_taps(), add_lines(), put_row().
// Places before the first row or column wrap to large numbers, so one comparison tells inside from outside.

// A line of the input: its row, the column where the strip's windows begin, and where that pixel's V lies. The others
// are fixed distances apart: multiplications take lavapipe long.
struct Line { row: u32, left: u32, first: u32 }

// The pixel at a place of a line.
fn pixel(line: Line, place: u32) -> V {
  let column = line.left + place * p.DW;
  let inside = line.row < p.H && column < p.W;
  return select(V(), enter(loadv_x(select(0u, line.first + place * (p.DW * p.x_pitch), inside))), inside);
}

// The line that lies so many lines of a window below.
fn below(line: Line, lines: u32) -> Line {
  return Line(line.row + lines * p.DH, line.left, line.first + lines * (p.DH * p.W * p.x_pitch));
}

fn tap(k: u32, n: u32) -> V { return loadv_w(k * p.N + n); }

// The first place of a strip along an axis.
fn first_of(strip: u32, places: u32, apart: u32) -> u32 {
  let group = strip / apart;
  return group * places * apart + strip - group * apart;
}

// The column of the result that a window of a strip belongs to, or one past the end.
fn column_of(window: u32, first: u32) -> u32 {
  let place = window / p.STEPS.y;
  return select(p.OW, first + place * p.APART.y, place * p.STEPS.y == window);
}

// No branch lies around all, which lavapipe takes long to compile: invocations past the last do no rounds.
@compute @workgroup_size(WX, WY, WZ)
fn main(at: Invocation) {
  let i = workgroup_number(at) * WX + at.local.x;
  let strip = i / p.N;
  let n = i - strip * p.N;
  let rest = strip / p.TILES;
  let image = rest / p.STRIPS;
  let oy = first_of(rest - image * p.STRIPS, p.ROWS, p.APART.x);
  let ox = first_of(strip - rest * p.TILES, p.COLUMNS, p.APART.y);
  let rows = min(p.ROWS, select(0u, p.OH - oy + p.APART.x - 1u, oy < p.OH) / p.APART.x);
  var taps = Taps();
  for (var k = 0u; k < p.TAPS; k += TAPS_AT_ONCE) { push_taps(&taps, k, n); }
  var sums = Sums();
  let first = begin(0u, n);
  let by = ending(n);
  let top = oy * p.SH - p.PT;
  let left = ox * p.SW - p.PL;
  let corner = (image * p.H + top) * p.W + left;
  var line = Line(top, left, corner * p.x_pitch + p.x_first + n / p.MULTIPLIER);
  let columns = columns_from(ox);
  var row = image * p.OH + oy;
  var missing = LIVE;  // rounds until the row that is next is there
  for (var rounds = select(0u, (rows - 1u) * p.STEPS.x + LIVE, i < p.count); rounds > 0u; rounds--) {
    add_lines(&sums, &taps, line, first);
    line = below(line, LINES);
    missing--;
    if (missing == 0u) {
      put_row(&sums, row, columns, n, by);
      row += p.APART.x;
      missing = p.STEPS.x;
    }
  }
}

// Stores the sum of a pixel of the result if there is such a pixel.
fn put_pixel(row: u32, column: u32, n: u32, sum: Sum, by: Ending) {
  if (column < p.OW) { put_by((row * p.OW + column) * p.N + n, sum, by); }
}
