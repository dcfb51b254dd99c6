"""A custom op with all facets and a shader of its own."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from gpunn.kernel import Kernel, Read, flat_threads
from gpunn.ops.accuracy import sums
from gpunn.ops.call import Call
from gpunn.ops.check import expect_dtype
from gpunn.ops.elementwise.unary import activation_function
from gpunn.ops.op import op
from gpunn.types import Array, DType, TensorType


def _infer(call: Call) -> TensorType:
    x, c = expect_dtype(call, 0, DType.FLOAT32), expect_dtype(call, 1, DType.FLOAT32)
    if x.rank == 0 or c.shape != x.shape[-1:]:
        call.fail(f"c must be a row like those of {x}, got {c}")
    return x


def _length(call: Call) -> int:
    return call.x.shape[-1]


def _kernel(call: Call) -> Kernel:
    return Kernel(
        body=str(Path(__file__).with_suffix(".wgsl")),
        threads=flat_threads(call.x.size),
        workgroup=(64, 1, 1),
        reads=(Read("x", 0), Read("c", 1)),
        params={"count": call.x.size, "length": _length(call)},
        functions=activation_function(call),
        loop_iterations=_length(call),
        reason="one invocation for each element",
    )


@op(
    _infer,
    _kernel,
    fusible=True,
    flops=lambda call: 2 * call.x.size * _length(call),
    accuracy=sums(_length),
)
def circular_convolution(x: Array, c: Array) -> Array:
    """Convolve each row of x [..., N] with c [N]; indices wrap around."""
    return np.asarray(sum(x[..., k : k + 1] * np.roll(c, k) for k in range(x.shape[-1])))
