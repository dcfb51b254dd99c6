"""Product: what describes a product whose operands a workgroup shares; of matrices, and of windows."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from gpunn.kernel import Kernel, Param, Read, vec_width
from gpunn.ops.call import Call
from gpunn.ops.kernels.window import Window, window_params
from gpunn.rows import Pitch, Start

Reads = tuple[Read, Read]  # of the filter and the bias

# The idle shares of windows over channels that are loaded four at a time, or one by one. For the first,
# register tiles need no more loads: an NVIDIA H200 takes 0.7 of the time in these for 3 x 3 on 128 x 128 x 32
# to 32 channels. For the second it takes 0.5 of their time for 3 x 3 on 224 x 224 x 3 to 16.
_OF_FOURS, _OF_SINGLES = 1 / 4, 3 / 4


@dataclass(frozen=True, slots=True)
class Product:
    """A product of y [..., N]: the body that knows its rows, and what the body expects.

    depth: of the sums. width: of loads of x. reads: filter and bias, if these are not inputs 1 and 2, packed.
    computed: the filter may be computed, and its columns are not padded. matrices: how many filters there
    are; rows are divided evenly among these, one behind the other. row: the elements of a row of x, if the
    body loads it by rows; else 0. pitch: which parameters say where these rows begin, or x. integers: makes
    a kernel of integers of that of reals; elements of the depth are words of four, then. stacked: of a stack.
    windows: rows are what windows see. idle: the share of what tiles of 64 x 64 compute that may be in vain
    where they come first.
    """

    body: str
    depth: int
    width: int
    params: Mapping[str, Param] = field(default_factory=dict)
    libraries: tuple[str, ...] = ()
    reads: Reads | None = None
    computed: bool = False
    matrices: int = 1
    row: int = 0
    pitch: Pitch | Start | None = None
    integers: Callable[[Kernel], Kernel] | None = None
    stacked: bool = False
    windows: bool = False
    idle: float = 1 / 2

    def sizes(self, call: Call) -> tuple[int, int]:
        """Return the rows of each matrix, and the channels."""
        return math.prod(call.y.shape[:-1]) // max(self.matrices, 1), call.y.shape[-1]


def matrix_product(depth: int, reads: Reads | None = None) -> Product:
    """Describe y[M, N] = apply(x[M, depth] . w + bias).

    reads: the filter, and the bias, if these are not constants; then it lies as if it were packed, and 4
    divides the depth.
    """
    libraries, computed = (step_library(depth), "packed_columns"), reads is not None
    row, width = 0 if depth % 4 else depth, vec_width(depth)
    return Product(
        "matmul_workgroup",
        depth,
        width,
        {"K": depth},
        libraries,
        reads,
        computed,
        row=row,
        pitch=step_pitch(depth),
    )


def step_library(depth: int, step: int = 4) -> str:
    """Return the lib/ file for steps of four elements, or one, along rows of that length, one behind the
    other.
    """
    if step == 1:
        return "row_elements"
    return "ragged_row_steps" if depth % 4 else "row_steps"


def step_pitch(depth: int, step: int = 4) -> Pitch:
    """Return how that file finds rows."""
    return Pitch(depth, min(step, vec_width(depth)))


def window_product(call: Call, window: Window) -> Product:
    """Describe a convolution with one group and a constant filter."""
    _, height, width, channels = call.x.shape
    depth, lanes = channels * math.prod(window.size), vec_width(channels)
    params: dict[str, Param] = {
        **window_params(window, height, width),
        "C": channels // lanes,
        "K": depth // lanes,
        "inverse_c": lanes / channels,
        "inverse_kw": 1 / window.size[1],
    }
    body, idle = ("conv_workgroup", _OF_FOURS) if lanes == 4 else ("conv_direct_workgroup", _OF_SINGLES)
    pitch = Pitch(channels, lanes)
    return Product(body, depth, lanes, params, ("packed_columns",), pitch=pitch, windows=True, idle=idle)
