"""Products of tensors over any dimensions: dot_general."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from gpunn.ops.call import Call
from gpunn.ops.check import FLOATS, expect_dtype, expect_ints
from gpunn.ops.contraction.batch_matmul import batch_matmul
from gpunn.ops.expansion import Expansion, Tensor
from gpunn.ops.op import Op, op
from gpunn.types import Array, Shape, TensorType


def _parts(call: Call, index: int) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Return an input's dimensions in common with the other input, the summed dimensions, and the others."""
    x, side = call.input(index), "ab"[index]
    batch, summed = (expect_ints(call, f"{side}_{kind}") for kind in ("batch", "contracting"))
    free = tuple(d for d in range(x.rank) if d not in (*batch, *summed))
    if sorted((*batch, *summed, *free)) != list(range(x.rank)):
        call.fail(f"{x} has no dimensions {list(batch)} and {list(summed)}")
    return batch, summed, free


def _matrices(call: Call, index: int) -> tuple[tuple[int, ...], Shape]:
    """Return the order of an input's dimensions as matrices, and their shape [batch, rows, columns]."""
    batch, summed, free = _parts(call, index)
    parts = (batch, summed, free) if index else (batch, free, summed)
    shape = call.input(index).shape
    return tuple(d for part in parts for d in part), tuple(
        math.prod(shape[d] for d in part) for part in parts
    )


def _infer(call: Call) -> TensorType:
    a, b = (expect_dtype(call, index, *FLOATS) for index in range(2))
    shared = [[t.shape[d] for d in _parts(call, k)[0]] for k, t in enumerate((a, b))]
    summed = [[t.shape[d] for d in _parts(call, k)[1]] for k, t in enumerate((a, b))]
    if shared[0] != shared[1] or summed[0] != summed[1]:
        call.fail(f"extents {shared[0]} and {summed[0]} of {a} are {shared[1]} and {summed[1]} of {b}")
    matrices = tuple(t.with_shape(_matrices(call, k)[1]) for k, t in enumerate((a, b)))
    batch_matmul.infer(replace(call, inputs=matrices, attrs=batch_matmul.attributes))
    rest = [t.shape[d] for k, t in enumerate((a, b)) for d in _parts(call, k)[2]]
    return a.with_shape((*shared[0], *rest))


def _expand(call: Call, to: Expansion, a: Tensor, b: Tensor) -> Tensor:
    sides = []
    for index, x in enumerate((a, b)):
        perm, shape = _matrices(call, index)
        sides.append(to.add("reshape", to.add("transpose", x, perm=perm), shape=shape))
    return to.add("reshape", to.add("batch_matmul", *sides), shape=call.y.shape)


@op(
    _infer,
    expand=_expand,
    flops=lambda call: 2 * call.y.size * math.prod(call.x.shape[d] for d in call["a_contracting"]),
)
def dot_general(
    a: Array,
    b: Array,
    *,
    a_contracting: Sequence[int],
    b_contracting: Sequence[int],
    a_batch: Sequence[int] = (),
    b_batch: Sequence[int] = (),
) -> Array:
    """Multiply two tensors element by element and sum over the contracting dimensions.

    a, b [...]: dimension a_batch[k] has the extent of b_batch[k] and goes along with it, a_contracting[k]
    that of b_contracting[k]. The result has the batch dimensions, then the rest of a's, then of b's. dtypes
    and accuracy as of batch_matmul. Raises ModelError for dimensions that are not there or named twice, and
    for extents that differ. TFLite schema, StablehloDotGeneralOptions; StableHLO, dot_general.
    """
    shared = range(len(a_batch))
    count = len(shared) + len(a_contracting)
    sides = ((a, a_batch, a_contracting), (b, b_batch, b_contracting))
    labels: list[list[int]] = []
    for x, batch, over in sides:
        known = {d: number for number, d in enumerate((*batch, *over))}
        labels.append([known.get(d, count + len(labels) * a.ndim + d) for d in range(x.ndim)])
    rest = [label for side in labels for label in side if label >= count]
    return np.asarray(np.einsum(a, labels[0], b, labels[1], [*shared, *rest]))


OPS: tuple[Op, ...] = (dot_general,)
