"""Rules of the operators that add borders or cut them off (a part of the table in table.py).

Borders that are computed decide on the shape of the result by their sums. How they are divided between the
two ends of an axis is an operand, so that one program serves all borders of one sum.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import tflite as schema

from gpunn.graph.operation import Lifetime, Operand
from gpunn.importers.common.answers import Result, Step, StepList, Steps, Value, constant
from gpunn.importers.tflite.node import Node
from gpunn.importers.tflite.rules.tensor import fill
from gpunn.types import DType, Shape, TensorType

MIRRORS = {schema.MirrorPadMode.REFLECT: "reflect", schema.MirrorPadMode.SYMMETRIC: "symmetric"}
Pairs = tuple[tuple[int, int], ...]


def pad(node: Node) -> Step | Steps:
    """Translate PAD with zeros, as quantised, PADV2 with its third input."""
    x = node.operand(0)
    given = _pairs(node, 1, "paddings", x.type.rank, "int16", "int8", "bool")
    zero = _zero_point(x.type)
    value = fill(node, 2) if len(node.inputs) > 2 else None
    if _moves(node.operand(1), given, x.type):
        steps = StepList()
        before = _before(steps, node.operand(1))
        return steps.answer(_placed(steps, x, value or _constant(node, zero), given, before))
    if value is not None and value.value is None:
        return Step("dilate", (x, value), {"steps": (1,) * x.type.rank, "paddings": given})
    number = zero if value is None or value.value is None else value.value.item()
    return Step("pad", (x,), {"paddings": given, "value": number})


def mirror_pad(node: Node) -> Step | Steps:
    """Translate MIRROR_PAD; with computed paddings, what each axis reads is computed, too."""
    mode = node.options("MirrorPadOptions").get("Mode")
    if mode not in MIRRORS:
        node.corrupt(f"there is no mirror mode number {mode}")
    x, repeats = node.operand(0), int(mode == schema.MirrorPadMode.SYMMETRIC)  # whether the edge is, too
    given = _pairs(node, 1, "paddings", x.type.rank)
    fits = all(max(pair) < n + repeats for n, pair in zip(x.type.shape, given, strict=True))
    if not fits or not _moves(node.operand(1), given, x.type):
        return Step("mirror_pad", (x,), {"paddings": given, "mode": MIRRORS[mode]})
    steps = StepList()
    found: Operand | Result = x
    before = _before(steps, node.operand(1))
    for axis, (extent, pair) in enumerate(zip(x.type.shape, given, strict=True)):
        if any(pair):
            first = steps.add("strided_slice", (before,), _range((axis,), (axis + 1,)))
            places = _mirrored(steps, node, first, extent, sum(pair) + extent, repeats)
            found = steps.add("gather", (found, places), {"axis": axis})
    return steps.answer(found)


def _mirrored(steps: StepList, node: Node, before: Result, extent: int, count: int, repeats: int) -> Result:
    """Return which of `extent` elements each of `count` is, `before` in front of the first."""
    dtype = node.operand(1).type.dtype.numpy
    numbers = constant(f"{node.origin}: elements", np.arange(count, dtype=dtype))
    edge = constant(f"{node.origin}: first edge", np.array(-repeats, dtype))
    other = constant(f"{node.origin}: last edge", np.array(2 * (extent - 1) + repeats, dtype))
    place = steps.add("sub", (numbers, before))
    place = steps.add("maximum", (place, steps.add("sub", (edge, place))))
    return steps.add("minimum", (place, steps.add("sub", (other, place))))


def space_to_batch(node: Node) -> Step | Steps:
    """Translate SPACE_TO_BATCH_ND by a constant block shape and paddings, whose value is the real 0."""
    x, block = node.operand(0), node.ints(1, "block extents")
    given, value = _pairs(node, 2, "paddings"), _zero_point(x.type)
    attrs = {"block_shape": block, "paddings": given, "value": value}
    if len(given) >= x.type.rank or not _moves(node.operand(2), given, x.type):
        return Step("space_to_batch_nd", (x,), attrs)
    steps = StepList()
    behind = x.type.rank - 1 - len(given)
    around = ((0, 0), *given, *[(0, 0)] * behind)
    before = steps.add("pad", (_before(steps, node.operand(2)),), {"paddings": ((1, behind),)})
    padded = _placed(steps, x, _constant(node, value), around, before)
    none = ((0, 0),) * len(given)
    return steps.answer(steps.add("space_to_batch_nd", (padded,), {**attrs, "paddings": none}))


def batch_to_space(node: Node) -> Step | Steps:
    """Translate BATCH_TO_SPACE_ND by a constant block shape and crops."""
    x, block = node.operand(0), node.ints(1, "block extents")
    given = _pairs(node, 2, "crops")
    attrs = {"block_shape": block, "crops": given}
    rows = zip(x.type.shape[1:], block, given, strict=False)
    sizes = tuple(n * b - sum(pair) for n, b, pair in rows)
    fits = len(block) == len(given) < x.type.rank and min((*sizes, *block), default=0) > 0
    blocks = int(np.prod(block, dtype=object))
    if not fits or x.type.shape[0] % blocks or not _moves(node.operand(2), given, x.type):
        return Step("batch_to_space_nd", (x,), attrs)
    steps = StepList()
    whole = steps.add("batch_to_space_nd", (x,), {**attrs, "crops": ((0, 0),) * len(given)})
    inside = (x.type.shape[0] // blocks, *sizes, *x.type.shape[1 + len(given) :])
    ways = {"sizes": inside, "axes": tuple(range(1, 1 + len(given))), "clip": False}
    return steps.answer(steps.add("dynamic_slice", (whole, _before(steps, node.operand(2))), ways))


def _pairs(node: Node, index: int, what: str, count: int | None = None, *small: str) -> Pairs:
    """Return the value of input `index`, of int32, int64 or `small`, as pairs, exactly `count` if given."""
    found = node.constant(index, what, "int32", "int64", *small)
    if count is not None and found.shape != (count, 2):
        node.corrupt(f"the {what} should have shape [{count}, 2], got {list(found.shape)}")
    if found.ndim != 2 or found.shape[1] != 2:
        node.corrupt(f"the {what} should be pairs, got shape {list(found.shape)}")
    return tuple((int(before), int(after)) for before, after in found)


def _moves(amounts: Operand, given: Pairs, type: TensorType) -> bool:
    """Tell whether computed borders can be an operand; those that an op refuses are left to it."""
    plain = type.dtype is not DType.STRING and (type.quantization is None or type.quantization.per_tensor)
    whole = amounts.type.dtype in (DType.INT32, DType.INT64)
    return amounts.value is None and whole and plain and bool(given) and min(map(min, given)) >= 0


def _before(steps: StepList, amounts: Operand) -> Result:
    """Return how much there is before the elements of each dimension."""
    attrs = _range((0, 0), (amounts.type.shape[0], 1))
    return steps.add("strided_slice", (amounts,), {**attrs, "shrink_axes": (1,)})


def _range(begin: Sequence[int], end: Sequence[int]) -> dict[str, Sequence[int]]:
    return {"begin": begin, "end": end, "strides": (1,) * len(begin)}


def _placed(steps: StepList, x: Operand, value: Operand, around: Pairs, before: Value) -> Result:
    """Put x where `before` says into a tensor full of a value."""
    shape: Shape = tuple(n + sum(pair) for n, pair in zip(x.type.shape, around, strict=True))
    full = steps.add("fill", (value,), {"shape": shape})
    return steps.add("dynamic_update_slice", (full, x, before))


def _zero_point(type: TensorType) -> float:
    """Return what stands for the real 0."""
    return 0.0 if type.quantization is None else float(type.quantization.zero_point[0])


def _constant(node: Node, number: float) -> Operand:
    """Return a number as a constant of the type of the first input."""
    x = node.operand(0).type
    value = np.array(number).astype(x.dtype.numpy)
    type = TensorType(x.dtype, (), x.quantization)
    return Operand(f"{node.origin}: border", type, Lifetime.CONSTANT, value)
