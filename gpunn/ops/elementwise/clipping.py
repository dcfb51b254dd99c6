"""Fused activations that clip, as parameters of a kernel: kernels share a pipeline whether and how they clip.

This is for bodies that take a compiler long. They expect clip, p.low and p.high, besides apply.
"""

from __future__ import annotations

import math
from dataclasses import replace

from gpunn.kernel import Function, Kernel, keep_nan
from gpunn.ops.call import Call
from gpunn.ops.elementwise.unary import activation_function
from gpunn.ops.fixed_point.affine import CLAMPS

_CLIP = Function(("x", "low", "high"), keep_nan("clamp(x, low, high)", "x"))


def with_activation(kernel: Kernel, call: Call) -> Kernel:
    """Return a kernel of reals with the call's fused activation."""
    name = call.attrs.get("activation")
    if name is None or name in CLAMPS:
        return clipping(kernel, name)
    clipped = clipping(kernel)
    return replace(clipped, functions={**clipped.functions, **activation_function(call)})


def clipping(kernel: Kernel, name: str | None = None) -> Kernel:
    """Return a kernel of reals that clips as the activation of that name, one of CLAMPS; None: not at all.

    Bounds that an activation does not have are infinite.
    """
    low, high = (None, None) if name is None else CLAMPS[name]
    bounds = -math.inf if low is None else float(low), math.inf if high is None else float(high)
    params = {**kernel.params, "low": bounds[0], "high": bounds[1]}
    return replace(kernel, functions={**kernel.functions, "clip": _CLIP}, params=params)
