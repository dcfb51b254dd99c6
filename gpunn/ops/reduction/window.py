"""Reductions from an initial value: reduce_from, of whole axes, and reduce_window, of windows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from gpunn.kernel import Unsupported
from gpunn.ops.accuracy import Accuracy, Count
from gpunn.ops.call import Call
from gpunn.ops.check import FLOATS, QUANTIZED, expect_axes, expect_dtype, expect_ints
from gpunn.ops.elementwise import binary
from gpunn.ops.expansion import Expansion, Tensor
from gpunn.ops.fixed_point.affine import dequantize
from gpunn.ops.fixed_point.single_ops import compute_op
from gpunn.ops.kernels.window import MOST
from gpunn.ops.movement.dilate import Pairs, dilate, expect_fill, signed_paddings, with_room
from gpunn.ops.op import Op, Quantized, op
from gpunn.ops.reduction import reduce
from gpunn.ops.reduction.window_pools import ALONE, Along, maxima, padded
from gpunn.types import MAX_ELEMENTS, Array, DType, Quantization, Shape, TensorType, bounded

_MOST = 2**63 - 1  # of the numbers of a window: StableHLO has 64 bits for each
MAX_PLACES = 1 << 22  # that the windows of one axis have, all in all, where each gets an index of its own


class Joining(NamedTuple):
    """The way to combine elements: the op that reduces, the op that combines two, and the neutral element."""

    reduce: str
    join: str
    neutral: float

    def neutral_of(self, dtype: np.dtype[Any]) -> Array:
        """Return what changes nothing among elements of a dtype."""
        if math.isfinite(self.neutral) or dtype.kind == "f":
            return np.array(self.neutral, dtype)
        return np.array(np.iinfo(dtype).min if self.neutral < 0 else np.iinfo(dtype).max, dtype)


JOININGS: Mapping[str, Joining] = {
    "sum": Joining("reduce_sum", "add", 0),
    "prod": Joining("reduce_prod", "mul", 1),
    "max": Joining("reduce_max", "maximum", -math.inf),
    "min": Joining("reduce_min", "minimum", math.inf),
    "all": Joining("reduce_all", "logical_and", 1),
    "any": Joining("reduce_any", "logical_or", 0),
}
# Of truth values a sum and a maximum are "any", a product and a minimum "all".
_OF_TRUTHS = {"sum": "any", "max": "any", "any": "any", "prod": "all", "min": "all", "all": "all"}
_REDUCTIONS = {reduction.name: reduction for reduction in reduce.OPS}
_JOINS = {join.name: join for join in binary.OPS}


def joining(function: str, truths: bool) -> Joining:
    """Return how a function joins elements, which may be truth values."""
    return JOININGS[_OF_TRUTHS[function] if truths else function]


def _joining(call: Call) -> Joining:
    return joining(call["function"], call.x.dtype is DType.BOOL)


def _expect_joined(call: Call) -> TensorType:
    """Return the type of the first input, which the function of attribute `function` must take."""
    if call["function"] not in JOININGS:
        call.fail(f"function must be {' or '.join(JOININGS)}, got {call['function']!r}")
    return expect_dtype(call, 0, *_REDUCTIONS[_joining(call).reduce].dtypes)


def window_counts(
    shape: Shape, size: Sequence[int], strides: Sequence[int], dilations: Sequence[int]
) -> tuple[int, ...]:
    """Return how many windows there are along each axis of a tensor."""
    axes = zip(shape, size, strides, dilations, strict=True)
    return tuple(max((n - (k - 1) * d - 1) // s + 1, 0) for n, k, s, d in axes)


def _ones(call: Call, attr: str) -> tuple[int, ...]:
    """Return an attribute with a number for each dimension; by default all are 1."""
    return (1,) * call.x.rank if call[attr] is None else expect_ints(call, attr)


def _infer(call: Call) -> TensorType:
    x = _expect_joined(call)
    size = expect_ints(call, "size")
    strides, base, dilations = (_ones(call, name) for name in ("strides", "base_dilations", "dilations"))
    if {len(size), len(strides), len(base), len(dilations)} != {x.rank}:
        call.fail(f"has windows of {list(size)} for {x}")
    if min((*size, *strides, *base, *dilations), default=1) < 1:
        call.fail(f"windows of {list(size)}, {list(strides)}, {list(base)} and {list(dilations)} go below 1")
    if max((*size, *strides, *base, *dilations), default=1) > _MOST:
        call.fail(
            f"windows of {list(size)}, {list(strides)}, {list(base)} and {list(dilations)} leave 64 bits"
        )
    expect_fill(call)
    room = with_room(call, base)
    bounded("with room for windows", x.with_shape(room))
    return x.with_shape(window_counts(room, size, strides, dilations))


def _expand(call: Call, to: Expansion, x: Tensor, initial: Tensor | None = None) -> Tensor:
    """Write the op axis by axis: a gather puts the elements of each window side by side, a reduction combines
    them. Quantised ones are added or multiplied at once, after all gathers. Many elements are combined by
    _doubled() instead, maxima by pools.

    `initial` then joins every window once more.
    """
    how = _joining(call)
    strides, base, dilations = (_ones(call, name) for name in ("strides", "base_dilations", "dilations"))
    size, room = expect_ints(call, "size"), with_room(call, base)
    fill, paddings = initial, signed_paddings(call)
    if initial is None and room != call.x.shape:
        if call.x.quantization is not None:
            raise Unsupported("what changes nothing may not be among the quantised numbers")
        fill = to.constant(how.neutral_of(call.x.dtype.numpy))
    counts = window_counts(room, size, strides, dilations)
    windows = _pooled(call, counts)
    if fill is None or _is_neutral(call, how, fill):
        windows, paddings = padded(windows, call.x.shape, base, paddings)
    found = to.add("dilate", x, fill, steps=base, paddings=paddings)
    if windows:
        found = maxima(to, found, windows)
    rounds = call.x.quantization is not None and call["function"] not in ("max", "min")
    joins = initial is not None and not _is_neutral(call, how, initial)
    if rounds and joins:
        raise Unsupported("the initial value would be joined to a rounded result")
    seen: list[int] = []  # axes of elements side by side: reductions one by one would each round and saturate
    for number, (count, k, s, d) in enumerate(zip(counts, size, strides, dilations, strict=True)):
        if k == s == 1 or number in windows:
            continue
        axis = number + len(seen)
        k = k if count else 1  # what there is of no window
        others = (n for other, n in enumerate(found.type.shape) if other != axis)
        if count * k > MAX_PLACES or count * k * math.prod(others) > MAX_ELEMENTS:
            if rounds:
                raise Unsupported("too many windows")
            found = _doubled(to, how, found, axis, (count, k, s, d))
            continue
        places = np.arange(count)[:, None] * s + np.arange(k) * d
        found = to.add("gather", found, to.constant(places.astype(np.int32)), axis=axis)
        if rounds:
            seen.append(axis + 1)
        else:
            found = to.add(how.reduce, found, axes=(axis + 1,))
    if seen:
        found = to.add(how.reduce, found, axes=seen, quantization=call.y.quantization)
    return _joined(to, how, found, initial, call.y.quantization) if initial is not None and joins else found


def _is_neutral(call: Call, how: Joining, initial: Tensor) -> bool:
    """Tell whether an initial value is known to change nothing."""
    if initial.value is None:
        return False
    real = dequantize(initial.value.reshape(()), initial.type.with_shape(()))
    return bool(real == how.neutral)


def _pooled(call: Call, counts: Shape) -> Mapping[int, Along]:
    """Return the windows along each axis that a max pool can combine; counts: how many they are."""
    if call["function"] != "max" or call.x.dtype not in FLOATS or min(counts, default=0) < 1:
        return {}
    sizes, strides, dilations = expect_ints(call, "size"), _ones(call, "strides"), _ones(call, "dilations")
    axes = enumerate(zip(counts, sizes, strides, dilations, strict=True))
    near = {axis: Along(k, min(s, MOST)) for axis, (n, k, s, d) in axes if d == 1 and n * k <= MAX_PLACES}
    return {axis: along for axis, along in near.items() if along != ALONE}


def _doubled(to: Expansion, how: Joining, x: Tensor, axis: int, windows: tuple[int, int, int, int]) -> Tensor:
    """Combine windows along an axis: those of 2, 4, 8 ... elements are two of half the size each.

    windows: how many, their size, stride and dilation. The binary digits of the size say which of these
    windows lie one behind the other in each.
    """
    count, size, stride, apart = windows
    found: Tensor | None = None
    begin, power = 0, 1

    def part(first: int, length: int, step: int = 1) -> Tensor:
        ends = (*x.type.shape[:axis], first + length, *x.type.shape[axis + 1 :])
        begins, steps = (
            [v if d == axis else n for d in range(len(ends))] for v, n in ((first, 0), (step, 1))
        )
        return to.add("strided_slice", x, begin=tuple(begins), end=ends, strides=tuple(steps))

    def both(a: Tensor, b: Tensor) -> Tensor:
        return to.add(how.join, a, b, quantization=x.type.quantization)

    while True:
        if size & power:
            piece = part(begin, (count - 1) * stride + 1, stride)
            found = piece if found is None else both(found, piece)
            begin += power * apart
        if 2 * power > size:
            assert found is not None
            return found
        length = x.type.shape[axis] - power * apart
        x = both(part(0, length), part(power * apart, length))
        power *= 2


def _joined(
    to: Expansion, how: Joining, x: Tensor, initial: Tensor, quantization: Quantization | None
) -> Tensor:
    """Join every element of x with one value."""
    one = initial if initial.type.rank == 0 else to.add("reshape", initial, shape=())
    return to.add(how.join, x, one, quantization=quantization)


def _rounded(function: str, terms: Count) -> Count:
    """Return how many elements each result of a function joins, none for other functions."""
    return lambda call: terms(call) + 1 if call["function"] == function else 0


def _accuracy(terms: Count) -> Accuracy:
    return Accuracy(terms=_rounded("sum", terms), roundings=_rounded("prod", terms))


def _elements(call: Call) -> int:
    """Count the elements of a window."""
    return math.prod(call["size"])


@op(
    _infer,
    expand=_expand,
    host_reason=f"over {MAX_PLACES} quantised elements to add along an axis, no initial value to quantise, "
    "or one that changes results",
    flops=lambda call: call.y.size * _elements(call),
    accuracy=_accuracy(_elements),
    dtypes=(*QUANTIZED, DType.FLOAT16),
    unbounded=True,
)
def reduce_window(
    x: Array,
    initial: Array | None = None,
    *,
    function: str,
    size: Sequence[int],
    strides: Sequence[int] | None = None,
    base_dilations: Sequence[int] | None = None,
    dilations: Sequence[int] | None = None,
    paddings: Pairs | None = None,
) -> Array:
    """Reduce each window of x to its "sum", "prod", "max" or "min", of bools to "any" or "all".

    x [...] of the dtypes of the reduction of that name; a window has `size` elements in every dimension,
    `dilations` apart, and the next one begins `strides` further. Before, x gets base_dilations - 1 elements
    between any two and `paddings` around it, see dilate; these are `initial`, one element of x's type, which
    also joins each window once. Without it they change nothing. Quantised tensors stand for reals. Accuracy
    as of the reductions. Raises ModelError for numbers below 1 or over 64 bits, paddings that cut more than
    there is, and other dtypes. TFLite schema, REDUCE_WINDOW; StableHLO, reduce_window.
    """
    how = joining(function, x.dtype == bool)
    base, apart, steps = ((1,) * x.ndim if v is None else v for v in (base_dilations, dilations, strides))
    fill = how.neutral_of(x.dtype) if initial is None else initial
    found: Array = dilate.reference(x, fill, steps=base, paddings=paddings)
    for axis, (k, s, d) in enumerate(zip(size, steps, apart, strict=True)):
        reach = (k - 1) * d + 1
        if reach > found.shape[axis]:
            found = np.empty((*found.shape[:axis], 0, *found.shape[axis + 1 :]), found.dtype)
            continue
        seen = np.lib.stride_tricks.sliding_window_view(found, reach, axis)
        index: list[Any] = [slice(None)] * seen.ndim
        index[axis], index[-1] = slice(None, None, s), slice(None, None, d)
        found = np.asarray(_REDUCTIONS[how.reduce].reference(seen[tuple(index)], axes=(x.ndim,)))
    if initial is None:
        return found
    return np.asarray(_JOINS[how.join].reference(found, initial.reshape(())))


def _infer_reduce(call: Call) -> TensorType:
    x = _expect_joined(call)
    axes = expect_axes(call, expect_ints(call, "axes"), x.rank)
    expect_fill(call)
    return x.with_shape(tuple(n for d, n in enumerate(x.shape) if d not in axes))


def _expand_reduce(call: Call, to: Expansion, x: Tensor, initial: Tensor) -> Tensor:
    how, axes, wanted = _joining(call), expect_ints(call, "axes"), call.y.quantization
    reduced = to.add(how.reduce, x, quantization=wanted, axes=axes) if axes else x
    return _joined(to, how, reduced, initial, wanted)


def _stored_reduction(call: Call, x: Array, initial: Array) -> Array:
    """Return the stored result of what _expand_reduce() adds for quantised tensors."""
    how, axes, reduced = _joining(call), expect_ints(call, "axes"), (x, call.x)
    if axes:
        reduced = compute_op(_REDUCTIONS[how.reduce], [reduced], call.y, axes=axes)
    one = initial.reshape(()), call.input(1).with_shape(())
    return compute_op(_JOINS[how.join], [reduced, one], call.y)[0]


def _along_axes(call: Call) -> int:
    """Count the elements that reduce_from joins to one."""
    return call.x.size // max(call.y.size, 1)


@op(
    _infer_reduce,
    expand=_expand_reduce,
    quantized=Quantized(_stored_reduction, dtypes=QUANTIZED),
    flops=lambda call: call.x.size + call.y.size,
    accuracy=_accuracy(_along_axes),
    dtypes=(*QUANTIZED, DType.FLOAT16),
)
def reduce_from(x: Array, initial: Array, *, function: str, axes: Sequence[int]) -> Array:
    """Reduce x along axes to its "sum", "prod", "max" or "min", of bools to "any" or "all".

    x [...] of the dtypes of the reduction of that name; `initial`, one element of x's type, joins each result
    once. Axes may be negative and may repeat, and are removed; without axes every element joins `initial`.
    Quantised tensors are reduced by that reduction, to the result's quantisation, and then joined. Accuracy
    as of the reductions. Raises ModelError for other functions and dtypes, and for axes out of range. TFLite
    schema, StablehloReduceOptions; StableHLO, reduce.
    """
    how = joining(function, x.dtype == bool)
    found = _REDUCTIONS[how.reduce].reference(x, axes=tuple(axes)) if axes else x
    return np.asarray(_JOINS[how.join].reference(found, initial.reshape(())))


OPS: tuple[Op, ...] = (reduce_window, reduce_from)
