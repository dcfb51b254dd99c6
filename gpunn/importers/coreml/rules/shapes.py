"""Rules of layers that give the same elements another shape, and of constants."""

from __future__ import annotations

import math
from collections.abc import Sequence

from gpunn.importers.coreml.node import Node, Value
from gpunn.types import Shape

MAX_RANK = 16  # of tensors in a file


def load_constant(node: Node) -> Value:
    """Return the stored tensor; it has five axes in the networks of the first versions."""
    shape = shape_of(node, node.params.shape)
    value = node.weights(node.params.data, *shape)
    return node.floats(value.reshape((1, 1, *shape)) if node.legacy and len(shape) == 3 else value)


def shape_of(node: Node, stored: Sequence[int]) -> Shape:
    """Return a shape of the file. Raises FormatError for a rank that is too high, and negative extents."""
    if len(stored) > MAX_RANK or any(n < 0 for n in stored):
        node.corrupt(f"no tensor has the shape {list(stored[:MAX_RANK])}")
    return tuple(int(n) for n in stored)


def resolved(node: Node, target: Sequence[int], x: Value) -> Shape:
    """Return a shape for all elements of x, with -1 replaced by what is left for it."""
    size = math.prod(node.shape(x))
    known = math.prod(n for n in target if n != -1)
    rest = size // known if known else 0
    shape = tuple(rest if n == -1 else int(n) for n in target)
    if list(target).count(-1) > 1 or len(target) > MAX_RANK or min(shape, default=1) < 0:
        node.corrupt(f"no tensor has the shape {list(target[:MAX_RANK])}")
    if math.prod(shape) != size:
        node.corrupt(f"{size} elements of shape {list(node.shape(x))} have no shape {list(target)}")
    return shape


def _last_to_first(node: Node, x: Value) -> Value:
    """Return [..., H, W, C] as [..., C, H, W]."""
    rank = len(node.shape(x))
    return node.add("transpose", x, perm=(*range(rank - 3), rank - 1, rank - 3, rank - 2))


def _first_to_last(node: Node, x: Value) -> Value:
    """Return [..., C, H, W] as [..., H, W, C]."""
    rank = len(node.shape(x))
    return node.add("transpose", x, perm=(*range(rank - 3), rank - 2, rank - 1, rank - 3))


def reshape(node: Node) -> Value:
    """Return [..., C, H, W] in other extents; four extents are [sequence, C, H, W]."""
    params, x = node.params, node.only()
    target, shape = [int(n) for n in params.targetShape], x.type.shape
    if len(target) not in (3, 4) or len(shape) < 3 or (len(target) == 4 and len(shape) not in (4, 5)):
        node.corrupt(f"targetShape is {target[:MAX_RANK]}, the input has shape {list(shape)}")
    leading = shape[:-3]
    if len(target) == 4:
        leading = (target[0], *shape[1:-3])
    if params.mode == 0:
        return node.add("reshape", x, shape=resolved(node, (*leading, *target[-3:]), x))
    channels, height, width = target[-3:]
    y = _first_to_last(node, x)
    y = node.add("reshape", y, shape=resolved(node, (*leading, height, width, channels), y))
    return _last_to_first(node, y)


def flatten(node: Node) -> Value:
    """Return [..., C, H, W] as [..., C * H * W, 1, 1], in this order or with the channels last."""
    x = node.only()
    shape = x.type.shape
    if len(shape) < 3:
        node.corrupt(f"expected an input [..., channels, height, width], got shape {list(shape)}")
    y: Value = x if node.params.mode == 0 else _first_to_last(node, x)
    return node.add("reshape", y, shape=(*shape[:-3], math.prod(shape[-3:]), 1, 1))


def squeeze(node: Node) -> Value:
    """Return x without some axes of extent 1, or without all of them."""
    params, x = node.params, node.only()
    shape = x.type.shape
    if params.squeezeAll or not params.axes:
        return node.add("reshape", x, shape=tuple(n for n in shape if n != 1))
    axes = {node.axis(axis, len(shape)) for axis in params.axes}
    if any(shape[axis] != 1 for axis in axes):
        node.corrupt(f"axes {sorted(axes)} of shape {list(shape)} are not all of extent 1")
    return node.add("reshape", x, shape=tuple(n for axis, n in enumerate(shape) if axis not in axes))


def expand_dims(node: Node) -> Value:
    """Return x with axes of extent 1 at these places of the result."""
    params, x = node.params, node.only()
    rank = x.type.rank + len(params.axes)
    axes = {node.axis(axis, rank) for axis in params.axes}
    if len(axes) != len(params.axes) or rank > MAX_RANK:
        node.corrupt(f"axes {list(params.axes[:MAX_RANK])} are no places in a tensor")
    rest = iter(x.type.shape)
    return node.add("reshape", x, shape=tuple(1 if k in axes else next(rest) for k in range(rank)))


def flatten_to_2d(node: Node) -> Value:
    """Return x as a matrix: the axes before a place make the rows, the others the columns."""
    x = node.only()
    shape, axis = x.type.shape, int(node.params.axis)
    if not -len(shape) <= axis <= len(shape):
        node.corrupt(f"axis {axis} is out of range for rank {len(shape)}")
    axis = axis + len(shape) if axis < 0 else axis
    return node.add("reshape", x, shape=(math.prod(shape[:axis]), math.prod(shape[axis:])))


def reshape_static(node: Node) -> Value:
    """Return x in another shape; one extent may be -1."""
    x = node.only()
    return node.add("reshape", x, shape=resolved(node, list(node.params.targetShape), x))


def reshape_dynamic(node: Node) -> Value:
    """Return x in the shape that the second input holds."""
    x = node.operand(0)
    return node.add("reshape", x, shape=resolved(node, node.numbers(1, "shape"), x))


def rank_preserving_reshape(node: Node) -> Value:
    """Return x in another shape of the same rank; 0 keeps an extent, one may be -1."""
    x, target = node.only(), list(node.params.targetShape)
    if len(target) != x.type.rank:
        node.corrupt(f"targetShape has {len(target)} extents, the input has shape {list(x.type.shape)}")
    kept = [old if new == 0 else int(new) for old, new in zip(x.type.shape, target, strict=True)]
    return node.add("reshape", x, shape=resolved(node, kept, x))


def get_shape(node: Node) -> Value:
    """Return the shape of the input, as numbers."""
    return node.floats(node.only().type.shape)


def filled(node: Node, shape: Shape) -> Value:
    """Return a tensor full of the value of the parameters."""
    return node.add("fill", node.scalar(node.params.value), shape=shape)


def fill_static(node: Node) -> Value:
    """Return a tensor of a shape of the file, full of one value."""
    return filled(node, shape_of(node, node.params.targetShape))


def fill_dynamic(node: Node) -> Value:
    """Return a tensor of the shape that the input holds, full of one value."""
    return filled(node, shape_of(node, node.numbers(0, "shape")))


def _to_shape(node: Node, x: Value, shape: Shape) -> Value:
    return node.add("broadcast_to", x, shape=shape)


def broadcast_to_static(node: Node) -> Value:
    """Return the input repeated to a shape of the file."""
    return _to_shape(node, node.only(), shape_of(node, node.params.targetShape))


def broadcast_to_like(node: Node) -> Value:
    """Return the first input repeated to the shape of the second."""
    return _to_shape(node, node.operand(0), node.operand(1).type.shape)


def broadcast_to_dynamic(node: Node) -> Value:
    """Return the first input repeated to the shape that the second holds."""
    return _to_shape(node, node.operand(0), shape_of(node, node.numbers(1, "shape")))


def range_static(node: Node) -> Value:
    """Return numbers from a start to before an end."""
    params = node.params
    bounds = (params.startValue, params.endValue, params.stepSizeValue)
    return node.add("range", *(node.scalar(v) for v in bounds))


def range_dynamic(node: Node) -> Value:
    """Return numbers from a start to before an end; the inputs are the end, the start and the step."""
    if not 1 <= len(node.inputs) <= 3 or any(node.operand(k).type.size != 1 for k in range(len(node.inputs))):
        node.corrupt("expected one number for each of end, start and step")
    stated = [node.scalar(v) for v in (node.params.startValue, node.params.stepSizeValue)]
    end, start, step = (*(node.operand(k) for k in range(len(node.inputs))), *stated[len(node.inputs) - 1 :])
    return node.add("range", start, end, step)
