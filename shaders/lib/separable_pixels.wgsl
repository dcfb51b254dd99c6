//!use window
// The pixels between a depthwise convolution over height and width and the 1 x 1 convolution behind it, as rows of a
// product. Expects x [batch, H, W, C]; taps [KH, KW, 4 K4] and taps_bias [4 K4], the filter and the bias of the
// depthwise convolution, with zeros behind the C channels; between, its activation; row_step() of lib/row_steps.wgsl or
// lib/ragged_row_steps.wgsl, for pixels of x; p.K4; of gpunn/ops/contraction/separable.py, window_sum(row, k), which
// adds up what all cells of a window see; what lib/window.wgsl expects.

alias Row = Corner;

fn row_of(m: u32) -> Row { return corner(m); }

fn four_at(row: Row, k: u32) -> vec4<T> { return between4(window_sum(row, k)); }

// The sum of four channels before any cell.
fn begin_sum(k: u32) -> vec4<T> { return load4_taps_bias(k); }

// What window cell (ky, kx) sees of four channels; 0 outside of the image.
fn seen_at(row: Row, ky: u32, kx: u32, k: u32) -> vec4<T> {
  let pixel = cell(row, ky, kx);
  let inside = pixel != OUTSIDE;
  return select(vec4<T>(), row_step(place_of_row(select(0u, pixel, inside)), k), inside);
}

// The sum with what cell number `tap` sees.
fn add_tap(sum: vec4<T>, tap: u32, seen: vec4<T>, k: u32) -> vec4<T> { return sum + seen * load4_taps(tap * p.K4 + k); }
