"""Rules of layers that move elements: permutations, joins, parts, repetitions, borders."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from gpunn.graph.operation import Operand
from gpunn.importers.common.node import RefusedError
from gpunn.importers.common.strided_slice import StridedSlice
from gpunn.importers.coreml.node import Node, Value
from gpunn.importers.coreml.rules.windows import MAX_BORDER, channel_first, images

_PERMUTED = {4: (0, 1, 2, 3), 5: (0, 2, 3, 4)}  # the axes [sequence, C, H, W] of tensors, by their rank


def permute(node: Node) -> Value:
    """Return x with the axes [sequence, channel, height, width] in another order; the batch stays.

    Without an order, the result is x.
    """
    x = node.only()
    if not node.params.axis:
        return x
    order = node.ints_of(node.params.axis, "axis", 4)
    if x.type.rank not in _PERMUTED or sorted(order) != [0, 1, 2, 3]:
        node.corrupt(f"axis {list(order)} is no order of 4 axes of an input of shape {list(x.type.shape)}")
    places = _PERMUTED[x.type.rank]
    moved = [places[k] for k in order]
    return node.add("transpose", x, perm=tuple(moved if x.type.rank == 4 else [moved[0], 1, *moved[1:]]))


def transpose(node: Node) -> Value:
    """Return x with its axes in another order."""
    x = node.only()
    axes = tuple(int(a) for a in node.params.axes)
    if sorted(axes) != list(range(x.type.rank)):
        node.corrupt(f"axes {list(axes[:16])} are no order of the axes of shape {list(x.type.shape)}")
    return node.add("transpose", x, perm=axes)


def concat(node: Node) -> Value:
    """Return all inputs side by side, along the channels or the sequence."""
    rank = node.operand(0).type.rank
    axis = node.axis(-5 if node.params.sequenceConcat else -3, rank)
    return node.add("concat", *_all(node), axis=axis)


def _all(node: Node) -> list[Value]:
    """Return all inputs, numbers as tensors of one element."""
    inputs = [node.operand(k) for k in range(len(node.inputs))]
    return [node.add("reshape", x, shape=(1,)) if x.type.rank == 0 else x for x in inputs]


def concat_nd(node: Node) -> Value:
    """Return all inputs side by side along an axis, or interleaved along it."""
    inputs = _all(node)
    if not inputs:
        node.corrupt("has no inputs")
    shape = node.shape(inputs[0])
    axis = node.axis(node.params.axis, len(shape))
    if not node.params.interleave:
        return node.add("concat", *inputs, axis=axis)
    stacked = node.add("stack", *inputs, axis=axis + 1)
    return node.add("reshape", stacked, shape=(*shape[:axis], shape[axis] * len(inputs), *shape[axis + 1 :]))


def stack(node: Node) -> Value:
    """Return all inputs along a new axis."""
    inputs = [node.operand(k) for k in range(len(node.inputs))]
    return node.add("stack", *inputs, axis=node.axis(node.params.axis, node.operand(0).type.rank + 1))


def _parts(node: Node, x: Value, sizes: Sequence[int], axis: int) -> Sequence[Value]:
    extent = node.shape(x)[axis]
    if sum(sizes) != extent or min(sizes, default=0) < 1 or len(sizes) != node.count:
        node.corrupt(f"{extent} elements cannot be divided into the {node.count} outputs")
    first = node.add("split", x, sizes=tuple(sizes), axis=axis)
    return [first.beside(k) for k in range(len(sizes))]


def split(node: Node) -> Sequence[Value]:
    """Return the channels in equal parts."""
    x = node.only()
    axis, count = node.axis(-3, x.type.rank), max(1, int(node.params.nOutputs))
    if count != node.count:
        node.corrupt(f"nOutputs is {count}, there are {node.count} outputs")
    return _parts(node, x, [x.type.shape[axis] // count] * count, axis)


def split_nd(node: Node) -> Sequence[Value]:
    """Return parts along an axis, of stated sizes, or equal; the first ones are larger by one if need be."""
    params, x = node.params, node.only()
    axis = node.axis(params.axis, x.type.rank)
    if len(params.splitSizes):
        return _parts(node, x, [int(n) for n in params.splitSizes], axis)
    if not node.count:
        node.corrupt("has no outputs")
    size, larger = divmod(x.type.shape[axis], node.count)
    return _parts(node, x, [size + (k < larger) for k in range(node.count)], axis)


def sliced(node: Node, x: Value, axis: int, *bounds: int | None) -> Value:
    """Return x[start:end:step] along one axis."""
    rank = len(node.shape(x))
    start, end, step = bounds
    whole: list[Any] = [None] * rank
    begin, stop = list(whole), list(whole)
    begin[axis], stop[axis] = start, end
    strides = [1] * rank
    strides[axis] = step or 1
    return node.add(
        "strided_slice", x, begin=tuple(begin), end=tuple(stop), strides=tuple(strides), shrink_axes=()
    )


def slice_(node: Node) -> Value:
    """Return a range of channels, rows or columns; negative bounds count from the end."""
    params, x = node.params, node.only()
    if params.axis not in (0, 1, 2):
        raise RefusedError(f"its axis number {params.axis} is not in the format's document")
    axis = node.axis(params.axis - 3, x.type.rank)
    return sliced(node, x, axis, params.startIndex, params.endIndex, int(params.stride) or 1)


def slice_static(node: Node) -> Value:
    """Return x[begin:end:stride] in all dimensions; masks leave bounds open, or take one index only."""
    params = node.params
    lists = (params.beginIds, params.endIds, params.strides)
    return _masked_slice(node, lists, (params.beginMasks, params.endMasks, params.squeezeMasks))


def slice_dynamic(node: Node) -> Value:
    """Return the same as slice_static(); inputs after the first two override parameters, in their order."""
    params = node.params
    given = [node.numbers(index, "bounds") for index in range(1, len(node.inputs))]
    computed = node.operand(1) if len(node.inputs) > 1 and node.operand(1).value is None else None
    parameters = (params.endIds, params.strides, params.beginMasks, params.endMasks, params.squeezeMasks)
    rank = node.operand(0).type.rank
    stated = [v if len(v) == rank else () for v in parameters]  # those not meant may have any length
    whole: list[Sequence[int]] = [*given, *stated[max(0, len(given) - 1) :]]
    return _masked_slice(node, whole[:3], whole[3:], computed)


def _masked_slice(
    node: Node,
    lists: Sequence[Sequence[int]],
    masks: Sequence[Sequence[int]],
    computed: Operand | None = None,
) -> Value:
    """Return a slice by lists of begins, ends and strides, and masks of begins, ends and dropped axes.

    `computed` are the begins where these are no constants.
    """
    x = node.operand(0)
    rank = x.type.rank
    if len(lists) != 3 or len(masks) != 3:
        node.corrupt(f"it has {len(node.inputs)} inputs")
    begins, ends = (node.ints_of(stated, "bounds", rank, 0) for stated in lists[:2])
    strides = node.ints_of(lists[2], "strides", rank, 1)
    if 0 in strides:
        node.corrupt("a stride is 0")
    no_begin, no_end, one = (node.ints_of(mask, "masks", rank, 0) for mask in masks)
    begin = [b if only or not mask else None for b, mask, only in zip(begins, no_begin, one, strict=True)]
    if computed is not None:
        starts = node.add("cast", node.add("reshape", computed, shape=(rank,)), dtype="int32")
        spec = StridedSlice(node, x, computed=starts, entries=rank)
        for k, (first, last, stride) in enumerate(zip(begin, ends, strides, strict=True)):
            if one[k]:
                spec.index(None, k)
            else:
                spec.slice(first, None if no_end[k] else last, stride, k)
        return node.add_steps(spec.steps())
    return node.add(
        "strided_slice",
        x,
        begin=tuple(begin),
        end=tuple(None if mask else e for e, mask in zip(ends, no_end, strict=True)),
        strides=strides,
        shrink_axes=tuple(k for k, only in enumerate(one) if only),
    )


def slice_by_size(node: Node) -> Value:
    """Return a stated number of elements along an axis, from the index that the second input holds."""
    x, size = node.operand(0), int(node.params.size)
    axis = node.axis(node.params.axis, x.type.rank)
    if node.operand(1).value is None and size != -1:
        return _slice_at(node, axis, size)
    (start,) = node.ints_of(node.numbers(1, "begin"), "begin", 1)
    start = start + x.type.shape[axis] if start < 0 else start
    end = x.type.shape[axis] if size == -1 else start + size
    if not 0 <= start < end <= x.type.shape[axis]:
        node.corrupt(f"{size} elements from {start} are not in shape {list(x.type.shape)}")
    return sliced(node, x, axis, start, end, 1)


def _slice_at(node: Node, axis: int, size: int) -> Value:
    """Return `size` elements along an axis, from the index that the second input will hold."""
    x, begin = node.operand(0), node.operand(1)
    if not 1 <= size <= x.type.shape[axis] or begin.type.size != 1:
        node.corrupt(f"{size} elements from {begin.type.size} indices on do not fit {list(x.type.shape)}")
    start = node.add("cast", node.add("reshape", begin, shape=(1,)), dtype="int32")
    sizes = tuple(size if k == axis else n for k, n in enumerate(x.type.shape))
    return node.add("dynamic_slice", x, start, sizes=sizes, axes=(axis,), clip=False, negative=True)


def sequence_repeat(node: Node) -> Value:
    """Return x several times along the sequence."""
    x = node.only()
    multiples = [1] * x.type.rank
    multiples[node.axis(-5, x.type.rank)] = int(node.params.nRepetitions) or 1
    return node.add("tile", x, multiples=tuple(multiples))


def reorganize(node: Node) -> Value:
    """Return blocks of pixels as channels, or channels as blocks of pixels."""
    params, x = node.params, node.only()
    block = int(params.blockSize)
    if params.mode not in (0, 1, 2):
        raise RefusedError(f"its mode number {params.mode} is not in the format's document")
    leading = x.type.shape[:-3]
    if params.mode == 2:
        return _pixel_shuffle(node, x, block)
    op = "depth_to_space" if params.mode else "space_to_depth"
    return channel_first(node, node.add(op, images(node, x), block_size=block), leading)


def _pixel_shuffle(node: Node, x: Value, block: int) -> Value:
    """Return [N, C b b, H, W] as [N, C, H b, W b]: the blocks of a channel lie together."""
    shape = node.shape(x)
    if len(shape) < 3 or block < 1 or shape[-3] % block**2:
        node.corrupt(f"channels of shape {list(shape)} are no blocks of {block} x {block}")
    channels, height, width = shape[-3] // block**2, *shape[-2:]
    count = math.prod(shape[:-3])
    y = node.add("reshape", x, shape=(count * channels, block, block, height, width))
    y = node.add("transpose", y, perm=(0, 3, 1, 4, 2))
    return node.add("reshape", y, shape=(*shape[:-3], channels, height * block, width * block))


def tile(node: Node) -> Value:
    """Return x repeated along its last axes; a second input overrides the parameter."""
    x = node.operand(0)
    reps = list(node.numbers(1, "repetitions") if len(node.inputs) > 1 else node.params.reps)
    if len(reps) > x.type.rank:
        node.corrupt(f"there are {len(reps)} repetitions for an input of shape {list(x.type.shape)}")
    return node.add("tile", x, multiples=(*(1,) * (x.type.rank - len(reps)), *(int(n) for n in reps)))


def reverse(node: Node) -> Value:
    """Return x with some axes reversed."""
    x = node.only()
    flips = node.ints_of(node.params.reverseDim, "reverseDim", x.type.rank)
    return flipped(node, x, [axis for axis, flip in enumerate(flips) if flip])


def flipped(node: Node, x: Value, axes: Sequence[int]) -> Value:
    """Return x with these axes reversed."""
    rank = len(node.shape(x))
    strides, open_ = tuple(-1 if axis in axes else 1 for axis in range(rank)), (None,) * rank
    return node.add("strided_slice", x, begin=open_, end=open_, strides=strides, shrink_axes=())


def constant_pad(node: Node) -> Value:
    """Return x with borders of one value, as wide as stated or as brings the axis to a stated extent."""
    params, x = node.params, node.operand(0)
    stored = node.numbers(1, "paddings") if len(node.inputs) > 1 else params.padAmounts
    amounts = node.ints_of(stored, "padAmounts", 2 * x.type.rank)
    if not all(0 <= n <= MAX_BORDER for n in amounts):
        node.corrupt(f"padAmounts must be 0 to {MAX_BORDER}, got {list(amounts)}")
    if params.padToGivenOutputSizeMode:
        amounts = tuple(max(0, n - x.type.shape[k // 2]) if n else 0 for k, n in enumerate(amounts))
    pairs = tuple(zip(amounts[::2], amounts[1::2], strict=True))
    return node.add("pad", x, paddings=pairs, value=params.value)
