"""Depthwise convolutions in strips: the division into strips, and the WGSL that their shapes determine.

An invocation walks down a strip of rows. It keeps the window and the sums of all rows that the next lines of
the input enter, so each line is read once for all of them. All that has an index in registers is written out:
shaders/depthwise_strip.wgsl has the rest. The terms of a sum have the order of depthwise_conv2d.wgsl.

The windows that are written out begin as far apart as the stride wants. Or they begin at each line, and at
neighbouring pixels of it, so that all strides share a pipeline, for a driver takes long to compile one
(docs/performance.md, "First answers"). With a stride only some of them have a place in the result then.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gpunn.kernel import ceil_div
from gpunn.ops.kernels.window import Window

_MOST_TAPS = 49  # a window of 7 x 7
_MOST_SUMS = 15  # that an invocation keeps
_MOST_WINDOWS = 4  # side by side, where each round reads one line; fewer where it reads several
_MOST_OF_ALL_STRIDES = 3  # the same for all strides: compiled sooner, and fewer are added up in vain
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
    """A strip of `rows` places along the axis y, and the places of so many windows side by side along x.

    spread: how many lines, and pixels of a line, further the window behind a window begins.
    """

    y: Axis
    x: Axis
    windows: int
    rows: int
    spread: tuple[int, int]

    @property
    def steps(self) -> tuple[int, int]:
        """Count the windows from one place to the next, down and along a line."""
        return self.y.step // self.spread[0], self.x.step // self.spread[1]

    @property
    def columns(self) -> int:
        """Count the places along x."""
        return ceil_div(self.windows, self.steps[1])

    @property
    def live(self) -> int:
        """Count the rows of windows that a line of the input may enter."""
        return ceil_div(self.y.size, self.spread[0])

    @property
    def length(self) -> int:
        """Count the pixels of a line that a strip reads."""
        return (self.windows - 1) * self.spread[1] + self.x.size

    @property
    def taps(self) -> int:
        """Count the taps of the window."""
        return self.y.size * self.x.size

    @property
    def taps_at_once(self) -> int:
        """Count the taps that are loaded together."""
        return 1 if self.taps <= _FEW_TAPS else self.x.size

    @property
    def rounds(self) -> int:
        """Count the rounds down a strip: it also begins rows before the first that it stores."""
        return (self.rows - 1) * self.steps[0] + self.live

    @property
    def reads(self) -> float:
        """Return how many V's are loaded for each one of the result."""
        lines = self.rounds * self.spread[0]
        return (lines * self.length + self.taps) / (self.rows * self.columns)

    @property
    def count(self) -> int:
        """Count the strips of an image."""
        return self.y.strips(self.rows) * self.x.strips(self.columns)

    @property
    def wgsl(self) -> str:
        """Write what shaders/depthwise_strip.wgsl leaves open."""
        return "\n".join((*_types(self), *_taps(self), *_lines(self), *_put(self)))


def strip_of(window: Window, strips: int, shared: bool = False) -> Strip | None:
    """Return the strip for a window; None if strips read nothing twice, or would keep too much in registers.

    strips: how many an image should have for each V of channels. shared: with the pipeline of all strides.
    """
    both = axes(window)
    if both is None:
        return None
    y, x = both
    down, along = spread = (1, 1) if shared else (y.step, x.step)
    fitting = max(1, (_LONG_LINE - x.size) // along + 1)
    most = max(1, (x.places - 1) * x.step // along + 1)
    wide = _MOST_OF_ALL_STRIDES if shared else _MOST_WINDOWS // down
    windows = min(wide, fitting, _MOST_SUMS // ceil_div(y.size, down), most)
    if y.size <= y.step or windows == 0 or y.size * x.size > _MOST_TAPS:
        return None
    rows = ceil_div(y.places, max(1, strips // x.strips(ceil_div(windows, x.step // along))))
    return Strip(y, x, windows, max(1, min(rows, _MOST_ROWS)), spread)


def _types(strip: Strip) -> Iterator[str]:
    yield f"alias Taps = array<V, {strip.taps}>;"
    yield f"alias Sums = array<Sum, {strip.live * strip.windows}>;"
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


def _lines(strip: Strip) -> Iterator[str]:
    """Write add_lines(), which adds the products with the lines of a round to all rows.

    The first line also moves all rows up by one: it lets go of the oldest, and begins a new one. Lavapipe
    compiles this sooner than moves by themselves, and pixels that are loaded where a window first needs them.
    """
    count = strip.live * strip.windows
    yield "fn add_lines(sums: ptr<function, Sums>, taps: ptr<function, Taps>, start: Line, first: Sum) {"
    yield "var line = start;"
    for line in range(strip.spread[0]):
        yield "{"
        loaded = 0
        for window in range(strip.windows):
            end = window * strip.spread[1] + strip.x.size
            yield from (f"let x{i} = pixel(line, {i}u);" for i in range(loaded, end))
            loaded = end
            for k in range(window, count, strip.windows):
                row = line + strip.spread[0] * (strip.live - 1 - k // strip.windows)
                source = k if line else k + strip.windows
                sum = f"(*sums)[{source}]" if source < count else "first"
                if row < strip.y.size:
                    yield f"(*sums)[{k}] = {_sum(strip, sum, window, row)};"
        yield "}"
        yield "line = below(line, 1u);"
    yield "}"


def _sum(strip: Strip, sum: str, window: int, row: int) -> str:
    """Write a sum with the products of one row of a window."""
    for k in range(strip.x.size):
        sum = f"add({sum}, x{window * strip.spread[1] + k}, (*taps)[{row * strip.x.size + k}])"
    return sum


def _put(strip: Strip) -> Iterator[str]:
    """Write put_row(), which stores the oldest row."""
    yield "fn put_row(sums: ptr<function, Sums>, row: u32, columns: Columns, n: u32, by: Ending) {"
    yield from (f"put_pixel(row, columns[{i}], n, (*sums)[{i}], by);" for i in range(strip.windows))
    yield "}"
