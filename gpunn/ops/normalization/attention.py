"""Attention in one kernel: a product of matrices, softmax of its rows, and the product with values."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from gpunn.kernel import (
    Candidate,
    Function,
    Kernel,
    Loop,
    Read,
    Write,
    ceil_div,
    fits_i32,
    flat_threads,
    vec_width,
)
from gpunn.ops.accuracy import EPS, Accuracy, Evaluation
from gpunn.ops.call import Call
from gpunn.ops.contraction.batch_matmul import batch_matmul
from gpunn.ops.elementwise import binary
from gpunn.ops.fusion import Fusion
from gpunn.ops.kernels.strides import broadcast_strides, matrix_steps, stack_params
from gpunn.ops.kernels.tiling import row_library
from gpunn.ops.normalization.normalize import softmax
from gpunn.ops.op import Op, op
from gpunn.rows import Start
from gpunn.types import Array, TensorType

_QUERIES, _KEYS, _COLUMNS = 32, 64, 64  # of a workgroup, at a time
_WIDTH = 128  # invocations of a workgroup
_WAY = f"{_QUERIES} queries x {_KEYS} keys at a time in the memory of a workgroup"
_LEAST = 8  # queries: with fewer most of a tile is idle
_WIDEST = 128  # columns of the values: scores are computed again for each _COLUMNS of them
_NOTHING = 100.0  # so far below the highest score the weight is 4e-44
_ADD, _MUL = (next(o for o in binary.OPS if o.name == name) for name in ("add", "mul"))


def _with_result(call: Call, definition: Op, *inputs: TensorType, **attrs: Any) -> Call:
    made = replace(
        call,
        op=definition.name,
        inputs=inputs,
        attrs={**definition.complete(call, attrs)},
        constant=(False,) * len(inputs),
    )
    result = definition.infer(made)
    assert isinstance(result, TensorType)
    return replace(made, outputs=(result,))


def _parts(call: Call) -> Iterator[tuple[Op, Call]]:
    """Yield the ops that a call computes one after the other, with their calls."""
    attrs = {"adj_a": call["adj_q"], "adj_b": call["adj_k"]}
    yield batch_matmul, (part := _with_result(call, batch_matmul, call.x, call.input(1), **attrs))
    for definition, k in ((_MUL, 4), (_ADD, 3)):
        if call.has(k):
            yield definition, (part := _with_result(call, definition, part.y, call.input(k)))
    yield softmax, (part := _with_result(call, softmax, part.y, beta=call["beta"]))
    yield batch_matmul, _with_result(call, batch_matmul, part.y, call.input(2), adj_b=call["adj_v"])


def _infer(call: Call) -> TensorType:
    (_, first), *between, (_, last) = _parts(call)
    if any(part.y.shape[-2:] != first.y.shape[-2:] for _, part in between):
        call.fail(f"the mask and the scale must not have more queries or keys than {first.y}")
    if call.has(4) and call.input(4).size != 1:
        call.fail(f"the scale must be one number, got {call.input(4)}")
    return last.y


def _depth(call: Call) -> int:
    """Return the number of products in a score."""
    return call.x.shape[-2 if call["adj_q"] else -1]


def _kernels(call: Call) -> Iterator[Candidate]:
    """Yield the way in tiles of queries and keys, for devices that have a memory of workgroups."""
    q, k, v = call.x.shape, call.input(1).shape, call.input(2).shape
    mask = call.input(3).shape if call.has(3) else (1, 1)
    (queries, columns), batch = call.y.shape[-2:], call.y.shape[:-2]
    depth, keys = _depth(call), k[-2 if call["adj_k"] else -1]
    suits = not call.device.software and queries >= _LEAST and columns <= _WIDEST
    if not suits or not (depth and keys and call.y.size):
        return
    if not fits_i32(*map(math.prod, (q, k, v, mask)), call.y.size):
        return
    down, across = broadcast_strides(mask[-2:], (queries, keys))
    steps = {
        "q": matrix_steps(q, call["adj_q"]),
        "k": matrix_steps(k, not call["adj_k"]),
        "v": matrix_steps(v, call["adj_v"]),
        "mask": (down, across),
    }
    lines = zip("qkv", (depth, depth, columns), strict=True)
    widths = {name: vec_width(extent) if steps[name][1] == 1 else 1 for name, extent in lines}
    tiles = ceil_div(queries, _QUERIES), ceil_div(columns, _COLUMNS)
    loops = Loop(ceil_div(keys, _KEYS), (Loop(ceil_div(depth, 16)), Loop(16), Loop(4)))
    kernel = Kernel(
        body="attention",
        threads=flat_threads(math.prod(batch) * math.prod(tiles) * _WIDTH, _WIDTH),
        workgroup=(_WIDTH, 1, 1),
        reads=(
            *(Read(name, number, widths[name], pitch=Start()) for number, name in enumerate("qkv")),
            Read("mask", 3 if call.has(3) else None),
            Read("scale", 4 if call.has(4) else None),
        ),
        writes=(Write(width=vec_width(columns)),),
        params={
            "MATRICES": math.prod(batch),
            "M": queries,
            "DOWN": tiles[0],
            "KEYS": keys,
            "K": depth,
            "K4": ceil_div(depth, 4),
            "N": columns,
            "ACROSS": tiles[1],
            "beta": float(call["beta"]),
            **{key: first for name in "qkv" for key, first in Start().params(name).items()},
            **stack_params(batch, {"q": q, "k": k, "v": v, "mask": mask}, steps, {}),
        },
        constants={f"{name.upper()}_FOURS": int(width == 4) for name, width in widths.items()},
        functions={"scaling": Function((), "load_scale(0u)" if call.has(4) else "T(1)")},
        libraries=row_library(math.prod(call.y.shape[:-1]), columns),
        loop_iterations=loops.iterations + Loop(16).iterations,
        reason=f"{queries} queries, {keys} keys, {columns} columns: {_WAY}",
    )
    yield Candidate([kernel], f"all in one: {_WAY}")


def _errors(evaluation: Evaluation) -> Array:
    """Return how far results may be off: by the errors of the weights, and by those of both sums.

    A score is off by the errors of a sum of products, of the scaling and of the mask. What that makes of
    e^score is a factor; so is the error of exp, 3 + 2 |x| units of the last place (WGSL, section 15.7.4),
    once for the score and once for each time that sums are scaled down. A quotient of two sums has the
    factors of both.
    """
    call = evaluation.call
    q, k, v = map(evaluation.input, range(3))
    mask, scale = (*evaluation.inputs[3:], None, None)[:2]
    adjoints = {"adj_a": call["adj_q"], "adj_b": call["adj_k"]}
    factor = np.ones(()) if scale is None else scale
    scores = factor * batch_matmul.reference(q, k, **adjoints)
    sizes = np.abs(factor) * batch_matmul.reference(np.abs(q), np.abs(k), **adjoints)
    masked = scores if mask is None else scores + mask
    below = call["beta"] * (np.max(masked, axis=-1, keepdims=True) - masked)
    count = _depth(call) * EPS * sizes + EPS * np.abs(scores) + EPS * np.abs(masked)
    times = 2 * ceil_div(masked.shape[-1], _KEYS)
    off = np.where(below < _NOTHING, call["beta"] * count + EPS * (4 * below + 4 * times + 4), 0.0)
    worst = np.max(off, axis=-1, keepdims=True) + EPS * (2 * masked.shape[-1] + times + 3)
    weights = np.exp(-below) / np.sum(np.exp(-below), axis=-1, keepdims=True)
    return np.asarray(batch_matmul.reference(weights * np.expm1(off + worst), np.abs(v), adj_b=call["adj_v"]))


@op(
    _infer,
    _kernels,
    flops=lambda call: sum(definition.count_flops(part) for definition, part in _parts(call)),
    accuracy=Accuracy(formula=_errors),
)
def attention(
    q: Array,
    k: Array,
    v: Array,
    mask: Array | None = None,
    scale: Array | None = None,
    *,
    adj_q: bool = False,
    adj_k: bool = False,
    adj_v: bool = False,
    beta: float = 1.0,
) -> Array:
    """Compute softmax(beta (scale q k + mask)) v, with softmax along the keys: attention.

    q [..., M, D], or [..., D, M] with adj_q; k [..., D, N], or [..., N, D] with adj_k; v [..., N, C], or
    [..., C, N] with adj_v; mask broadcasts to [..., M, N]; scale is one number; result [..., M, C]. The
    dimensions before the last two broadcast. dtype: float32, float16. Where the scores of a row contain NaN
    or +inf, or only -inf, the row of the result is NaN. Raises ModelError for other dtypes, for shapes that
    do not fit, and for a mask with more rows or columns than the scores have. Vaswani et al. 2017, Attention
    Is All You Need, section 3.2.1.
    """
    scores = batch_matmul.reference(q, k, adj_a=adj_q, adj_b=adj_k)
    scores = scores if scale is None else scores * scale
    scores = scores if mask is None else scores + mask
    weights = softmax.reference(scores, beta=beta)
    return np.asarray(batch_matmul.reference(weights, v, adj_b=adj_v))


def _attrs(*calls: Call) -> Mapping[str, Any] | None:
    """Return the attributes of attention for its operations; None if it does not compute these."""
    first, *between, rows, last = calls
    scores = first.y.shape
    along = rows.axis(rows["axis"], rows.y.rank) == rows.y.rank - 1
    grown = any(part["activation"] or part.y.shape[-2:] != scores[-2:] for part in between)
    factors = [part.input(1).size for part in between if part.op == _MUL.name]
    if not along or grown or last["adj_a"] or any(size != 1 for size in factors):
        return None
    adjoints = {"adj_q": first["adj_a"], "adj_k": first["adj_b"], "adj_v": last["adj_b"]}
    return {**adjoints, "beta": rows["beta"]}


def _fusion(*between: Op) -> Fusion:
    """State the operations of attention, with these on the scores."""
    ops = (batch_matmul, *between, softmax, batch_matmul)
    mask, scale = ((1 + between.index(o), 1) if o in between else None for o in (_ADD, _MUL))
    return Fusion(ops, attention, ((0, 0), (0, 1), (len(ops) - 1, 1), mask, scale), _attrs)


FUSIONS: tuple[Fusion, ...] = (_fusion(), _fusion(_MUL), _fusion(_ADD), _fusion(_MUL, _ADD))
