"""Kernels of pools over height and width."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from gpunn.device import DeviceProperties
from gpunn.kernel import (
    Function,
    Kernel,
    Read,
    Scratch,
    Write,
    ceil_div,
    flat_threads,
    vec_width,
)
from gpunn.ops.call import Call
from gpunn.ops.kernels.chain import boxes, chained, keeping
from gpunn.ops.kernels.cooperative import CooperativeGroup
from gpunn.ops.kernels.tiling import shares
from gpunn.ops.kernels.window import (
    UNKNOWN_SIZE,
    Window,
    known_size,
    window_iterations,
    window_params,
)
from gpunn.rows import Pitch
from gpunn.types import DType, Shape, TensorType

STRIP = 4  # results that an invocation computes side by side
_MANY = 1024  # results: fewer take as long as their dispatch
_LARGE = 25  # cells of a window, of which rows and columns apart are fewer
_KEPT = {"finish": Function(("s", "n"), "s")}


class _Pass(NamedTuple):
    """Windows of a tensor [N, H, W, C], where it is read and written, and functions of the bodies."""

    window: Window
    shape: Shape
    source: int | Scratch
    target: int | Scratch
    functions: Mapping[str, Function]

    @property
    def result(self) -> Shape:
        """Return the result's shape."""
        return (self.shape[0], *self.window.out, self.shape[3])


def pool_kernels(
    call: Call, window: Window, functions: Mapping[str, Function], partial: DType, apart: bool
) -> list[Kernel]:
    """Make the kernels of a pool: one, or several that combine parts of the window, as `partial`.

    functions: those of shaders/pool2d.wgsl. apart: rows and columns of a window may be combined one after the
    other, as the order of cells does not matter.
    """
    whole = _Pass(window, call.x.shape, 0, 0, functions)
    if not apart or math.prod(window.size) < _LARGE or window.stride != (1, 1) or 1 in window.size:
        return _combined(call, whole, partial)
    (height, width), (top, left), (bottom, right) = window.size, window.before, window.after
    columns = replace(
        window, size=(height, 1), before=(top, 0), after=(bottom, 0), out=(window.out[0], call.x.shape[2])
    )
    rows = replace(window, size=(1, width), before=(0, left), after=(0, right))
    as_combined = {name: f for name, f in functions.items() if name != "apply"} | _KEPT
    first = _Pass(columns, call.x.shape, 0, 0, as_combined)
    between = Scratch(TensorType(partial, first.result))
    as_entered = {**functions, "enter": Function(("v",), "v")}
    return [
        *_combined(call, first._replace(target=between), partial),
        *_combined(call, _Pass(rows, first.result, between, 0, as_entered), partial),
    ]


def _combined(call: Call, how: _Pass, partial: DType) -> list[Kernel]:
    axis = _strip_axis(how, call.device)
    return [_strip(how, axis)] if axis is not None else _singly(call, how, partial)


def _strip_axis(how: _Pass, device: DeviceProperties) -> int | None:
    """Return the axis along which an invocation computes several results; None if each has its own.

    Cells are combined in the same order: by rows, unless a window has one column.
    """
    (height, width), (down, right), out = how.window.size, how.window.stride, how.window.out
    count, most = math.prod(how.result) // vec_width(how.shape[3]), device.max_loop_iterations
    if count < _MANY or count // STRIP < device.parallel_invocations:
        return None
    if most is not None and window_iterations(how.window) > most:
        return None
    if right == 1 and width > 1 and out[1] >= STRIP:
        return 1
    return 0 if width == down == 1 and height > 1 and out[0] >= STRIP else None


def _strip(how: _Pass, axis: int) -> Kernel:
    window, (_, height, width, channels) = how.window, how.shape
    lanes = vec_width(channels)
    pixels = Pitch(channels, lanes)
    across, strips = 1 - axis, ceil_div(window.out[axis], STRIP)
    count = math.prod((how.shape[0], window.out[across], strips, channels // lanes))

    def place(d: int) -> tuple[int, int, int, int]:
        return how.shape[1 + d], window.out[d], window.size[d], window.before[d]

    def steps(columns: int, pixels: int) -> tuple[int, int, int, int]:
        return (1, columns, pixels, 0) if axis else (columns, 1, pixels, 0)

    return Kernel(
        body="pool_strip",
        threads=flat_threads(count),
        reads=(Read("x", how.source, lanes, pitch=None if isinstance(how.source, Scratch) else pixels),),
        writes=(Write(output=how.target, width=lanes),),
        params={
            "count": count,
            "strips": strips,
            "stride": window.stride[across],
            "along": place(axis),
            "across": place(across),
            "x_step": steps(width, height * width),
            "y_step": steps(window.out[1], math.prod(window.out)),
            **pixels.params("x"),
            "C": channels // lanes,
        },
        functions=how.functions,
        lanes=lanes,
        loop_iterations=window_iterations(window),
        reason=f"{STRIP} output pixels x {lanes} channels",
    )


def _singly(call: Call, how: _Pass, partial: DType) -> list[Kernel]:
    """Make the kernels of a pool for each of whose results one invocation or several combine the window."""
    window, (_, height, width, channels) = how.window, how.shape
    lanes = vec_width(channels)
    pixels = Pitch(channels, lanes)
    results = math.prod(how.result) // lanes
    group = CooperativeGroup(results, shares(results, window.size[0], call.device))
    parts = boxes(window.size, call.device.max_loop_iterations, group.size)
    whole = group.size == len(parts) == 1
    size = known_size(window, call.device) if whole else UNKNOWN_SIZE
    kernel = Kernel(
        body="pool2d",
        threads=group.threads,
        workgroup=group.workgroup,
        reads=(Read("x", how.source, lanes, pitch=None if isinstance(how.source, Scratch) else pixels),),
        writes=(Write(output=how.target, width=lanes),),
        params={
            **window_params(window, height, width),
            **pixels.params("x"),
            "SIZE": results,
            "C": channels // lanes,
        },
        functions=how.functions,
        constants={**group.constants, **size},
        libraries=("pool_shared" if group.size > 1 else "pool_alone",),
        lanes=lanes,
        index_bound=True,
        reason=f"one output pixel x {lanes} channels"
        + (f", rows in {group.size} shares" if group.size > 1 else ""),
    )
    as_combined = {name: f for name, f in how.functions.items() if name != "apply"} | _KEPT
    return chained(kernel, keeping(kernel, {"y": TensorType(partial, how.result)}, as_combined), parts)
