"""Sliding windows over height and width: padding rules and output sizes, shared by convolutions and pools."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, SupportsIndex

import numpy as np
from numpy.lib.stride_tricks import as_strided

from gpunn.device import DeviceProperties
from gpunn.kernel import nested
from gpunn.ops.call import Call
from gpunn.ops.memory import empty
from gpunn.ops.parts import Divide, Part, by_batch, part, row_axis
from gpunn.types import Array

MOST = (1 << 31) - 1  # rows and columns of a window, of its steps, and between its cells
MAX_PADDED = 64, 1 << 14  # a padded image may be so many times its input, or have so many pixels in all

Pair = tuple[int, int]
Padding = str | tuple[Pair, Pair]

_WRITTEN_OUT = 25  # cells of a window over which loops may be written out
UNKNOWN_SIZE: Mapping[str, int] = {"HEIGHT": 0, "WIDTH": 0}  # constants, see known_size()


@dataclass(frozen=True, slots=True)
class Window:
    """A window resolved for one input size; pairs are (height, width)."""

    size: Pair
    stride: Pair
    dilation: Pair
    before: Pair
    after: Pair
    out: Pair

    @property
    def pointwise(self) -> bool:
        """Tell whether every output cell reads exactly the input cell at its own place."""
        return self.size == (1, 1) and self.stride == (1, 1) and self.before == self.after == (0, 0)

    @property
    def turned(self) -> Window:
        """Return the same window for images whose rows are columns."""
        pairs = self.size, self.stride, self.dilation, self.before, self.after, self.out
        return Window(*((across, down) for down, across in pairs))


def resolve(spatial: Pair, size: Pair, stride: Pair, dilation: Pair, padding: Padding) -> Window:
    """Return the window for an input of (height, width) `spatial`.

    "valid" pads nothing; "same" gives ceil(input / stride) outputs, with the odd cell of padding at the end
    (NeuralNetworks.h, PaddingCode); ((top, bottom), (left, right)) is explicit. An output size may be 0 or
    less; check_window refuses that.
    """
    axes = [along(*a) for a in zip(spatial, size, stride, dilation, _explicit(padding), strict=True)]
    (top, bottom, height), (left, right, width) = axes
    return Window(size, stride, dilation, (top, left), (bottom, right), (height, width))


def _explicit(padding: Padding) -> tuple[Any, Any]:
    return (padding, padding) if isinstance(padding, str) else padding


def along(length: int, size: int, stride: int, dilation: int, padding: str | Pair) -> tuple[int, int, int]:
    """Return padding before, padding after and output length along one axis."""
    reach = (size - 1) * dilation + 1
    if padding == "same":
        out = -(-length // stride)
        total = max(0, (out - 1) * stride + reach - length)
        return total // 2, total - total // 2, out
    before, after = (0, 0) if isinstance(padding, str) else padding
    return before, after, (length + before + after - reach) // stride + 1


def check_window(call: Call, spatial: Pair, size: Pair) -> Window:
    """Return the window of a call from its attributes stride, padding and dilation (if it has one).

    Raises ModelError for what is no pair of integers, sizes, strides or dilations below 1 or over MOST,
    negative padding, an unknown padding name, a window that does not fit into its padded input, and a window
    so large that it reads almost only padding.
    """
    stride, dilation, padding = call["stride"], call.attrs.get("dilation", (1, 1)), call["padding"]
    for name, pair in (("window size", size), ("stride", stride), ("dilation", dilation)):
        if not _are_two(pair) or min(pair) < 1:
            call.fail(f"{name} must be two numbers of at least 1, got {pair}")
        if max(pair) > MOST:
            call.fail(f"{name} must be at most {MOST}, got {pair}")
    if isinstance(padding, str):
        if padding not in ("same", "valid"):
            call.fail(f"padding must be 'same', 'valid' or ((top, bottom), (left, right)), got {padding!r}")
    elif not _is_pair(padding) or not all(map(_are_two, padding)):
        call.fail(f"padding must be 'same', 'valid' or ((top, bottom), (left, right)), got {padding}")
    elif min(map(min, padding)) < 0:
        call.fail(f"padding must not be negative, got {padding}")
    window = resolve(spatial, size, stride, dilation, padding)
    if min(window.out) < 1 and min(spatial) > 0:
        call.fail(
            f"a window of {size} with dilation {dilation} does not fit an input of {spatial}, {padding=}"
        )
    margins = zip(spatial, window.before, window.after, strict=True)
    if math.prod(n + before + after for n, before, after in margins) > most_padded(spatial):
        call.fail(f"a window of {size} with dilation {dilation} is too wide for an input of {spatial}")
    return window


def _is_pair(value: Any) -> bool:
    return isinstance(value, Collection) and len(value) == 2


def _are_two(value: Any) -> bool:
    """Tell whether a value is a pair of integers."""
    return _is_pair(value) and all(isinstance(n, SupportsIndex) for n in value)


def most_padded(spatial: Pair) -> int:
    """Return how many pixels an input may have with its padding."""
    times, least = MAX_PADDED
    return max(times * math.prod(spatial), least)


def pad_input(x: Array, window: Window, value: float = 0.0) -> Array:
    """Pad x [N, H, W, C] around height and width as the window says."""
    if window.before == window.after == (0, 0):
        return x
    batch, height, width, channels = x.shape
    (top, left), (bottom, right) = window.before, window.after
    padded = empty((batch, top + height + bottom, left + width + right, channels), x.dtype)
    padded[:, top : top + height, left : left + width] = x  # several times quicker than numpy.pad()
    padded[:, :top] = padded[:, top + height :] = value
    padded[:, top : top + height, :left] = padded[:, top : top + height, left + width :] = value
    return padded


def seen(padded: Array, window: Window) -> Array:
    """Return what each cell of the result sees: a view [N, OH, OW, KH, KW, C] of the padded input."""
    shape = (padded.shape[0], *window.out, *window.size, padded.shape[3])
    return strided(padded, shape, window_steps(padded, window))


def window_steps(padded: Array, window: Window) -> tuple[int, ...]:
    """Return the bytes between neighbours along the axes of seen()."""
    (sy, sx), (dy, dx) = window.stride, window.dilation
    batch, row, column, channel = padded.strides
    return batch, sy * row, sx * column, dy * row, dx * column, channel


def strided(x: Array, shape: Sequence[int], steps: Sequence[int], first: int = 0) -> Array:
    """Return a view of x with a shape and steps in bytes along its axes; of dense x from byte `first` on."""
    if x.flags.c_contiguous and x.size:  # in a fifth of the time, and numpy checks where the view ends
        return np.ndarray(shape, x.dtype, x, first, steps)
    assert first == 0
    return as_strided(x, shape, steps, writeable=False)


def tap(padded: Array, window: Window, row: int, column: int) -> Array:
    """Return the input of cell (row, column) of the window: a view [N, OH, OW, C] of the padded input."""
    return seen(padded, window)[:, :, :, row, column]


def known_size(window: Window, device: DeviceProperties) -> Mapping[str, int]:
    """Return the constants of a kernel that combines whole windows, for lib/known_window.wgsl.

    The size of a large window stays unknown, and so does that of any on software: they would take longer to
    compile.
    """
    if device.software or math.prod(window.size) > _WRITTEN_OUT:
        return UNKNOWN_SIZE
    height, width = window.size
    return {"HEIGHT": height, "WIDTH": width}


def window_iterations(window: Window, *inner: int) -> int:
    """Count the iterations of loops over rows and columns of a window, with an inner loop if there is one."""
    return nested(*window.size, *inner).iterations


def window_params(window: Window, height: int, width: int) -> dict[str, int]:
    """Return the kernel parameters that every windowed body shares."""
    return {
        "H": height,
        "W": width,
        "OH": window.out[0],
        "OW": window.out[1],
        "KH": window.size[0],
        "KW": window.size[1],
        "SH": window.stride[0],
        "SW": window.stride[1],
        "DH": window.dilation[0],
        "DW": window.dilation[1],
        "PT": window.before[0],
        "PL": window.before[1],
    }


def by_rows(window_of: Callable[[Call], Window]) -> Divide:
    """Divide an op on windows along the batch, or the rows of a single image [1, H, W, C]."""

    def divide(call: Call, first: int, end: int) -> Part | None:
        if row_axis(call.y.shape) != 1 or call.x.shape[0] != 1:
            return by_batch(call, first, end)
        window = window_of(call)
        reach = (window.size[0] - 1) * window.dilation[0] + 1
        top, last = (row * window.stride[0] - window.before[0] for row in (first, end - 1))
        begin, stop = max(top, 0), min(last + reach, call.x.shape[1])
        if begin >= stop:  # it reads nothing but padding
            return None
        around = ((begin - top, last + reach - stop), (window.before[1], window.after[1]))
        found = part(call, first, end, (begin, *[None] * (len(call.inputs) - 1)), padding=around)
        read = call.x.with_shape((1, stop - begin, *call.x.shape[2:]))
        return replace(found, call=replace(found.call, inputs=(read, *found.call.inputs[1:])))

    return divide
