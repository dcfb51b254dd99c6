"""Reductions over any axes.

A line of TABLE is an op: its meaning in numpy, and as WGSL a start value, how an element joins the
accumulator, and what is done to the accumulator at the end.
Shapes: the reduced axes go, or stay as 1 with keep_dims. dtype: float32 or float16. Raises ModelError for
other dtypes and for axes that are out of range. Axes may be negative, repeated, all, or none (then
every element is reduced by itself).
Meaning: TFLite schema, MEAN and ReducerOptions; NNAPI 1.1 types.hal, OperationType::MEAN.
Accuracy: n eps mean(|x|) of float32 for n terms, beside the general promise, since sums round at every
term; the shader's 64 partial sums keep it far below that for long reductions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpunn.kernel import Function, Kernel, Read, Unsupported, Write, ceil_div, dims4, flat_threads, size_of
from gpunn.ops.check import FLOATS, expect_axes, expect_bool, expect_dtype, expect_ints
from gpunn.ops.op import Call, Op, op
from gpunn.ops.strides import aligned, by_fours, dense, merge
from gpunn.types import Array, Shape, TensorType

_GROUP = 64
_FEW = 4096  # outputs (vectors): below it, one invocation each leaves a GPU idle


def _mean(x: Array, *, axes: Sequence[int], keep_dims: bool = False) -> Array:
    axes = tuple({axis % x.ndim for axis in axes})
    count = size_of(tuple(x.shape[axis] for axis in axes))
    total = np.sum(x, axis=axes, keepdims=keep_dims, dtype=np.result_type(x, np.float32))
    with np.errstate(invalid="ignore"):  # the mean of nothing is NaN
        return np.asarray(total / total.dtype.type(count), x.dtype)


@dataclass(frozen=True, slots=True)
class Reduction:
    """One line: name, meaning, start, and expressions in `acc` and `x`; `p.count` terms are joined."""

    name: str
    meaning: Callable[..., Any]
    initial: float
    fold: str
    finish: str


TABLE = (Reduction("mean", _mean, 0.0, "acc + x", "acc / T(p.count)"),)


def _infer(call: Call) -> TensorType:
    x = expect_dtype(call, 0, *FLOATS)
    axes = expect_axes(call, expect_ints(call, "axes"), x.rank)
    if expect_bool(call, "keep_dims"):
        return x.with_shape(tuple(1 if d in axes else n for d, n in enumerate(x.shape)))
    return x.with_shape(tuple(n for d, n in enumerate(x.shape) if d not in axes))


def _spaces(call: Call) -> tuple[int, tuple[Shape, ...], tuple[Shape, ...]]:
    """Lanes, then sizes and strides of the kept and of the reduced dimensions, both merged.

    x is dense, so neighbours of one kind merge and at most half of them are left of each kind.
    """
    shape, steps = call.x.shape, dense(call.x.shape)
    axes = expect_axes(call, call["axes"], len(shape))
    inside = [d for d in range(len(shape)) if d in axes]
    outside = [d for d in range(len(shape)) if d not in axes]
    kept = merge(tuple(shape[d] for d in outside), tuple(steps[d] for d in outside))
    reduced = merge(tuple(shape[d] for d in inside), tuple(steps[d] for d in inside))
    if max(len(kept[0]), len(reduced[0])) > 4:
        raise Unsupported("kept and reduced dimensions alternate more than four times")
    if aligned(*kept):
        return 4, by_fours(*kept), (reduced[0], tuple(step // 4 for step in reduced[1]))
    return 1, kept, reduced


def _kernel(line: Reduction) -> Callable[[Call], Kernel]:
    def kernel(call: Call) -> Kernel:
        lanes, kept, reduced = _spaces(call)
        outputs, terms = size_of(kept[0]), size_of(reduced[0])
        share = terms >= _GROUP and (outputs < _FEW or reduced[1][-1] == 1)
        across, down = (_GROUP, 1) if share else (1, _GROUP)
        x, y, _ = flat_threads(ceil_div(outputs, down) * across, across)
        return Kernel(
            body="reduce",
            threads=(x, y * down, 1),
            workgroup=(across, down, 1),
            reads=(Read("x", 0, width=lanes),),
            writes=(Write(width=lanes),),
            params={
                "outputs": outputs,
                "count": terms,
                "initial": line.initial,
                "kept": dims4(kept[0], 1),
                "kept_stride": dims4(kept[1], 0),
                "reduced": dims4(reduced[0], 1),
                "reduced_stride": dims4(reduced[1], 0),
            },
            constants={"ONE_RUN": int(len(reduced[0]) <= 1)},
            functions={
                "fold": Function(("acc", "x"), line.fold),
                "finish": Function(("acc",), line.finish),
            },
            lanes=lanes,
            reason="one workgroup per result" if share else "one invocation per result",
        )

    return kernel


OPS: tuple[Op, ...] = tuple(op(_infer, _kernel(line), name=line.name)(line.meaning) for line in TABLE)
