"""Room between and around elements: dilate.

dtype: any; the result has the first input's, quantisation included, and elements move as stored.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from gpunn.kernel import Unsupported, size_of
from gpunn.ops.call import Call
from gpunn.ops.check import expect_entries, expect_int, expect_ints
from gpunn.ops.expansion import Expansion, Tensor
from gpunn.ops.op import Op, op
from gpunn.types import MAX_ELEMENTS, Array, DType, Shape, TensorType

Pairs = Sequence[tuple[int, int]]


def dilated(shape: Shape, steps: Sequence[int], paddings: Pairs) -> Shape:
    """Return the shape that dilate() gives; an extent comes out below 0 where more is cut than there is."""
    spread = (max((n - 1) * s + 1, 0) for n, s in zip(shape, steps, strict=True))
    return tuple(n + sum(pair) for n, pair in zip(spread, paddings, strict=True))


def expect_fill(call: Call) -> None:
    """Raise ModelError unless the second input, if present, is one element of the first input's type."""
    if not call.has(1):
        return
    fill = call.input(1)
    if fill.size != 1 or (fill.dtype, fill.quantization) != (call.x.dtype, call.x.quantization):
        call.fail(f"input 1 must be one element of the type of {call.x}, got {fill}")


def signed_paddings(call: Call) -> Pairs:
    """Return attribute `paddings`: a pair of integers for each dimension of the first input, 0 without it."""
    if call["paddings"] is None:
        return ((0, 0),) * call.x.rank
    found = [tuple(pair) for pair in expect_entries(call, "paddings", call.x.rank)]
    if any(len(pair) != 2 for pair in found):
        call.fail(f"paddings must be pairs (before, after), got {found}")
    return [
        (expect_int(call, "paddings", before), expect_int(call, "paddings", after)) for before, after in found
    ]


def with_room(call: Call, steps: Sequence[int]) -> Shape:
    """Return the shape of the first input dilated by `steps` and the call's paddings.

    Raises ModelError for paddings that cut more than there is.
    """
    paddings = signed_paddings(call)
    cut = [(min(before, 0), min(after, 0)) for before, after in paddings]
    if min(dilated(call.x.shape, steps, cut), default=0) < 0:
        call.fail(f"paddings {list(paddings)} cut more than there is of {call.x} in steps of {list(steps)}")
    return dilated(call.x.shape, steps, paddings)


def _infer(call: Call) -> TensorType:
    steps = expect_ints(call, "steps", call.x.rank)
    if min(steps, default=1) < 1:
        call.fail(f"steps should be at least 1, got {list(steps)}")
    expect_fill(call)
    return call.x.with_shape(with_room(call, steps))


def _expand(call: Call, to: Expansion, x: Tensor, fill: Tensor | None = None) -> Tensor:
    """Write the op as a pad of a new axis: room behind each element, cut off behind the last one.

    What is not cut off there counts as elements after x.
    """
    shape, paddings = call.x.shape, signed_paddings(call)
    steps = tuple(s if n > 1 else 1 for n, s in zip(shape, call["steps"], strict=True))
    most = tuple(n * s for n, s in zip(shape, steps, strict=True))
    if size_of(most) > MAX_ELEMENTS:
        raise Unsupported("room behind the last elements is too large")
    spread = [(n, 1) if s > 1 else (n,) for n, s in zip(shape, steps, strict=True)]
    behind = [((0, 0), (0, s - 1)) if s > 1 else ((0, 0),) for s in steps]
    found = to.add("reshape", x, shape=tuple(itertools.chain.from_iterable(spread)))
    found = padded(to, found, tuple(itertools.chain.from_iterable(behind)), fill)
    found = to.add("reshape", found, shape=most)
    ends = dilated(shape, steps, ((0, 0),) * len(shape))
    begin = tuple(max(-before, 0) for before, _ in paddings)
    wanted = tuple(n + after for n, (_, after) in zip(ends, paddings, strict=True))
    end = tuple(map(min, wanted, most))
    if any(begin) or end != most:
        found = to.add("strided_slice", found, begin=begin, end=end, strides=(1,) * len(shape))
    around = tuple((max(b, 0), n - e) for (b, _), n, e in zip(paddings, wanted, end, strict=True))
    return padded(to, found, around, fill)


def padded(to: Expansion, x: Tensor, paddings: Pairs, fill: Tensor | None) -> Tensor:
    """Return x with a value around it, which may be computed; without one, with zeros."""
    whole = fill is not None and fill.type.dtype is DType.COMPLEX64  # no attribute holds both parts
    if fill is None or (fill.value is not None and not whole):
        value = 0.0 if fill is None or fill.value is None else fill.value.reshape(-1)[0].item()
        return to.add("pad", x, paddings=paddings, value=value)
    shape = tuple(n + sum(pair) for n, pair in zip(x.type.shape, paddings, strict=True))
    starts = to.constant(np.array([before for before, _ in paddings], np.int32))
    return to.add("dynamic_update_slice", to.add("fill", fill, shape=shape), x, starts)


@op(
    _infer,
    expand=_expand,
    host_reason="with room behind the last elements, too, there are more than can be addressed",
    raw=True,
)
def dilate(
    x: Array, fill: Array | None = None, *, steps: Sequence[int], paddings: Pairs | None = None
) -> Array:
    """Put steps[d] - 1 elements `fill` between any two neighbours along each dimension d of x, and around x.

    fill: one element of x's type; without it, zeros as stored. `paddings`: for each dimension how many
    elements of `fill` stand before and after, none if not given; where the number is below 0, so many of what
    is there go. Raises ModelError for steps below 1, for paddings that cut more than there is, and for
    another `fill`. TFLite schema, DILATE; StableHLO, pad.
    """
    pairs = ((0, 0),) * x.ndim if paddings is None else paddings
    spread = dilated(x.shape, steps, ((0, 0),) * x.ndim)
    value = np.zeros((), x.dtype) if fill is None else fill.reshape(())
    result = np.full(spread, value, x.dtype)
    result[tuple(slice(None, None, s) for s in steps)] = x
    inner = tuple(slice(max(-b, 0), n - max(-a, 0)) for n, (b, a) in zip(spread, pairs, strict=True))
    around = [(max(b, 0), max(a, 0)) for b, a in pairs]
    return np.pad(result[inner], around, constant_values=value) if x.ndim else result


OPS: tuple[Op, ...] = (dilate,)
