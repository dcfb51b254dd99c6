"""Depthwise convolutions in strips: the division into strips, and the WGSL that their shapes determine.

An invocation walks down a strip of rows. It keeps the window and the sums of all rows that the next line of
the input enters, so each line is read once for all of them. All that has an index in registers is written
out: shaders/depthwise_strip.wgsl has the rest. The terms of a sum have the order of depthwise_conv2d.wgsl.

The windows that are written out begin at each line, and at neighbouring pixels of it. With a stride only some
of them have a place in the result. So all strides share a pipeline, for a driver takes long to compile one
(docs/performance.md, "First answers").
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gpunn.kernel import ceil_div
from gpunn.ops.kernels.window import Window

_MOST_TAPS = 49  # a window of 7 x 7
_MOST_SUMS = 15  # that an invocation keeps
_MOST_WINDOWS = 4  # side by side
_LONG_LINE = 8  # pixels: wider strips read more of them at once, and save little
_FEW_TAPS = 9  # are loaded one by one: compilers take long for each load of a shader
_MOST_ROWS = 32  # of a strip: longer ones save little


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis of the result, and how strips lie along it.

    Its places are `apart` pixels from one another; each sees `size` pixels of the input, and the window of
    the next place begins `step` of them further. `count` places in all.
    """

    size: int
    step: int
    apart: int
    count: int

    @property
    def places(self) -> int:
        """Count the places of a strip that goes from end to end."""
        return ceil_div(self.count, self.apart)

    def strips(self, places: int) -> int:
        """Count the strips of so many places each."""
        return ceil_div(self.places, places) * self.apart


def axes(window: Window) -> tuple[Axis, Axis] | None:
    """Return how strips lie along y and x; None if no step of a dilation leads to the next one."""
    y, x = map(_axis, window.size, window.stride, window.dilation, window.out)
    return None if y is None or x is None else (y, x)


def _axis(size: int, stride: int, dilation: int, count: int) -> Axis | None:
    if stride == 1:
        return Axis(size, 1, min(dilation, max(count, 1)), count)
    return Axis(size, stride // dilation, 1, count) if stride % dilation == 0 else None


@dataclass(frozen=True, slots=True)
class Strip:
    """A strip of `rows` places along the axis y, and the places of so many neighbouring windows along x."""

    y: Axis
    x: Axis
    windows: int
    rows: int

    @property
    def columns(self) -> int:
        """Count the places along x."""
        return ceil_div(self.windows, self.x.step)

    @property
    def length(self) -> int:
        """Count the pixels of a line that a strip reads."""
        return self.windows - 1 + self.x.size

    @property
    def taps(self) -> int:
        """Count the taps of the window."""
        return self.y.size * self.x.size

    @property
    def taps_at_once(self) -> int:
        """Count the taps that are loaded together."""
        return 1 if self.taps <= _FEW_TAPS else self.x.size

    @property
    def lines(self) -> int:
        """Count the lines of the input that a strip reads."""
        return (self.rows - 1) * self.y.step + self.y.size

    @property
    def reads(self) -> float:
        """Return how many V's are loaded for each one of the result."""
        return (self.lines * self.length + self.taps) / (self.rows * self.columns)

    @property
    def count(self) -> int:
        """Count the strips of an image."""
        return self.y.strips(self.rows) * self.x.strips(self.columns)

    @property
    def wgsl(self) -> str:
        """Write what shaders/depthwise_strip.wgsl leaves open."""
        return "\n".join((*_types(self), *_taps(self), *_begin(self), *_line(self), *_put(self)))


def strip_of(window: Window, strips: int) -> Strip | None:
    """Return the strip for a window; None if strips read nothing twice, or would keep too much in registers.

    strips: how many an image should have for each V of channels.
    """
    both = axes(window)
    if both is None:
        return None
    y, x = both
    fitting = max(1, _LONG_LINE + 1 - x.size)
    windows = min(_MOST_WINDOWS, fitting, _MOST_SUMS // y.size, max(1, (x.places - 1) * x.step + 1))
    if y.size <= y.step or windows == 0 or y.size * x.size > _MOST_TAPS:
        return None
    rows = ceil_div(y.places, max(1, strips // x.strips(ceil_div(windows, x.step))))
    return Strip(y, x, windows, max(1, min(rows, _MOST_ROWS)))


def _types(strip: Strip) -> Iterator[str]:
    yield f"alias Taps = array<V, {strip.taps}>;"
    yield f"alias Sums = array<Sum, {strip.y.size * strip.windows}>;"
    yield f"alias Columns = array<u32, {strip.windows}>;"
    columns = ", ".join(f"column_of({i}u, first)" for i in range(strip.windows))
    yield f"fn columns_from(first: u32) -> Columns {{ return Columns({columns}); }}"


def _taps(strip: Strip) -> Iterator[str]:
    """Write push_taps(), which moves the taps up and loads the next ones."""
    yield "fn push_taps(taps: ptr<function, Taps>, k: u32, n: u32) {"
    kept = strip.taps - strip.taps_at_once
    yield from (f"(*taps)[{i}] = (*taps)[{i + strip.taps_at_once}];" for i in range(kept))
    yield from (f"(*taps)[{kept + i}] = tap(k + {i}u, n);" for i in range(strip.taps_at_once))
    yield "}"


def _begin(strip: Strip) -> Iterator[str]:
    """Write begin_row(), which lets go of the oldest row of windows and begins a new one."""
    kept = (strip.y.size - 1) * strip.windows
    yield "fn begin_row(sums: ptr<function, Sums>, first: Sum) {"
    yield from (f"(*sums)[{i}] = (*sums)[{i + strip.windows}];" for i in range(kept))
    yield from (f"(*sums)[{kept + i}] = first;" for i in range(strip.windows))
    yield "}"


def _line(strip: Strip) -> Iterator[str]:
    """Write add_line(), which adds the products with a line to all rows."""
    yield "fn add_line(sums: ptr<function, Sums>, taps: ptr<function, Taps>, line: Line) {"
    yield from (f"let x{i} = pixel(line, {i}u);" for i in range(strip.length))
    for k in range(strip.y.size * strip.windows):
        age, window = divmod(k, strip.windows)
        yield f"(*sums)[{k}] = {_sum(strip, f'(*sums)[{k}]', window, strip.y.size - 1 - age)};"
    yield "}"


def _sum(strip: Strip, sum: str, window: int, row: int) -> str:
    """Write a sum with the products of one row of a window."""
    for k in range(strip.x.size):
        sum = f"add({sum}, x{window + k}, (*taps)[{row * strip.x.size + k}])"
    return sum


def _put(strip: Strip) -> Iterator[str]:
    """Write put_row(), which stores the oldest row."""
    yield "fn put_row(sums: ptr<function, Sums>, row: u32, columns: Columns, n: u32, by: Ending) {"
    yield from (f"put_pixel(row, columns[{i}], n, (*sums)[{i}], by);" for i in range(strip.windows))
    yield "}"
