"""Sums of 64 bits on the GPU: those of products of quantised int16 (shaders/lib/sums_int64.wgsl).

A dispatch keeps a sum as two numbers of 32 bits. Longer sums take several dispatches, which hand on 64 bits.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gpunn.kernel import Function, Kernel, Pack, Unsupported
from gpunn.ops.call import Call
from gpunn.ops.contraction.product_rescaling import Rescaling, Steps, finish_int64
from gpunn.ops.fixed_point.affine import LIMITS, scale_of, short_multiplier
from gpunn.ops.kernels.chain import keeping
from gpunn.types import Array, DType, TensorType


def most_iterations(call: Call) -> int | None:
    """Return how often the loops over the terms of a product may go round in a dispatch: None for any number.

    That many terms leave no part of a sum beyond 32 bits.
    """
    most = call.device.max_loop_iterations
    if call.x.dtype is not DType.INT16 or call.x.quantization is None:
        return most
    filter = call.input(1)
    assert filter.quantization is not None
    largest = reach(call.x, scale_of(call, call.x)[1]) * reach(filter, filter.quantization.zero_point[0])
    terms = (2**31 - 1) // _largest_part(largest)
    return terms if most is None else min(most, terms)


def widen(call: Call, kernel: Kernel, how: Rescaling, terms: int) -> Kernel:
    """Convert a kernel of product_kernel.of_integers() to sums of 64 bits, `terms` of each in a dispatch.

    Raises Unsupported if that is not possible.
    """
    x, w, bias, scales = kernel.reads
    if call.has(2):
        if not call.constant[2]:
            raise Unsupported("a bias of int64 is computed")
        bias = replace(bias, pack=Pack(pack_halves), dtype=DType.INT32)
    if how.steps is Steps.SHORT:
        how = replace(how, multiplier=short_multiplier(how.multiplier))
    largest = reach(call.x, how.zero_x) * reach(call.input(1), how.zero_w)
    if largest >= 2**31 or terms * _largest_part(largest) >= 2**31:
        raise Unsupported(f"parts of {terms} products of up to {largest} may not fit 32 bits")
    split = _split(largest)
    return replace(
        kernel,
        reads=(x, w, bias, replace(scales, value=how.table())),
        constants={**kernel.constants, "SPLIT": split},
        functions={
            "finish": finish_int64(how.steps),
            "above": Function(("product",), f"product >> {split}u"),
        },
        libraries=("requantize_int64",),
    )


def keep_words(widened: Kernel, words: TensorType) -> Kernel:
    """Make the kernel of all parts of a sum but the last, of one that widen() has made.

    words: the type of the lower words of the sums, and of the upper ones.
    """
    functions = {
        name: Function(("low", "high", "lower", "upper"), f"i32(whole(low, high, lower, upper).{place})")
        for name, place in (("lower_word", "x"), ("upper_word", "y"))
    }
    functions["above"] = widened.functions["above"]
    return keeping(widened, {"y": words, "y_upper": words}, functions, ("keep_int64",))


def _split(largest: int) -> int:
    """Return where products of up to `largest` are cut in two parts of about the same length."""
    return largest.bit_length() // 2


def _largest_part(largest: int) -> int:
    """Return how large a part of a product may be."""
    split = _split(largest)
    return max(1 << split, (largest >> split) + 1)


def reach(type: TensorType, zero: int) -> int:
    """Return the largest magnitude of a stored value without its zero point."""
    low, high = LIMITS[type.dtype]
    return max(high - zero, zero - low)


def pack_halves(values: Array) -> Array:
    """Pack int64 as int32: all lower words, then all upper ones."""
    return np.ascontiguousarray(values.astype("<i8").view("<i4").reshape(-1, 2).T)
