"""Ops that exchange space with depth or with batch: block by block, nothing is computed.

dtype: any; the result has the input's, quantisation included. Every form is one or a few strided copies.
A position along a spatial dimension, the padding or cropping in front counted, is the cell s and the place
p in its block: position = s * block + p. So a run of positions is at most three boxes of (s, p): the end
of a first block, whole blocks, the beginning of a last one.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from gpunn.kernel import Kernel, Read, size_of
from gpunn.ops.call import Call
from gpunn.ops.check import expect_int, expect_ints, expect_pairs, expect_value
from gpunn.ops.kernels.copies import filled, strided_copy
from gpunn.ops.kernels.strides import dense
from gpunn.ops.movement import gradients
from gpunn.ops.op import Op, op
from gpunn.types import Array, Shape, TensorType

Pairs = Sequence[tuple[int, int]]


class _Shuffle(NamedTuple):
    """A transposition between two shapes: x is seen as `split`, transposed by `perm`, seen as `result`."""

    split: Shape
    perm: Shape
    result: Shape

    def __call__(self, x: Array) -> Array:
        return x.reshape(self.split).transpose(self.perm).reshape(self.result)

    def kernel(self) -> Kernel:
        """Make a kernel that walks in the result's order."""
        sizes, steps = ([values[d] for d in self.perm] for values in (self.split, dense(self.split)))
        return strided_copy(
            Read("x", 0), tuple(sizes), tuple(steps), dense(tuple(sizes)), reason="in the result's order"
        )


def _to_depth(shape: Shape, block: int, data_format: str) -> _Shuffle:
    depth = block * block
    if data_format == "NHWC":
        n, h, w, c = shape[0], shape[1] // block, shape[2] // block, shape[3]
        return _Shuffle((n, h, block, w, block, c), (0, 1, 3, 2, 4, 5), (n, h, w, depth * c))
    n, c, h, w = shape[0], shape[1], shape[2] // block, shape[3] // block
    return _Shuffle((n, c, h, block, w, block), (0, 3, 5, 1, 2, 4), (n, depth * c, h, w))


def _to_space(shape: Shape, block: int, data_format: str) -> _Shuffle:
    depth = block * block
    if data_format == "NHWC":
        n, h, w, c = (*shape[:3], shape[3] // depth)
        return _Shuffle((n, h, w, block, block, c), (0, 1, 3, 2, 4, 5), (n, h * block, w * block, c))
    n, c, h, w = shape[0], shape[1] // depth, *shape[2:]
    return _Shuffle((n, block, block, c, h, w), (0, 3, 4, 1, 5, 2), (n, c, h * block, w * block))


def _block_size(call: Call) -> int:
    """Return attribute block_size; also check input and data_format."""
    call.expect_rank(0, 4)
    if call["data_format"] not in ("NHWC", "NCHW"):
        call.fail(f"data_format must be NHWC or NCHW, got {call['data_format']!r}")
    block = expect_int(call, "block_size", call["block_size"])
    if block < 1:
        call.fail(f"block_size must be >= 1, got {block}")
    return block


def _depth_to_space(call: Call) -> _Shuffle:
    block, shape = _block_size(call), call.x.shape
    depth = shape[3] if call["data_format"] == "NHWC" else shape[1]
    if depth % (block * block):
        call.fail(f"the depth must be divisible by block_size * block_size = {block * block}, got {depth}")
    return _to_space(shape, block, call["data_format"])


def _space_to_depth(call: Call) -> _Shuffle:
    block, shape = _block_size(call), call.x.shape
    height, width = shape[1:3] if call["data_format"] == "NHWC" else shape[2:4]
    if height % block or width % block:
        call.fail(f"height and width must be divisible by block_size {block}, got {height} x {width}")
    return _to_depth(shape, block, call["data_format"])


@op(
    lambda call: call.x.with_shape(_depth_to_space(call).result),
    lambda call: _depth_to_space(call).kernel(),
    raw=True,
    gradient=gradients.DEPTH_TO_SPACE,
)
def depth_to_space(x: Array, *, block_size: int, data_format: str = "NHWC") -> Array:
    """Move chunks of block_size * block_size values of depth to blocks of space.

    x [N, H, W, b * b * C] -> [N, H * b, W * b, C]; the place in the block (row, then column) is the
    high-order part of the depth. With data_format "NCHW" x [N, b * b * C, H, W] -> [N, C, H * b, W * b].
    Raises ModelError unless x has rank 4, block_size >= 1 and b * b divides the depth. NeuralNetworks.h,
    ANEURALNETWORKS_DEPTH_TO_SPACE; TFLite's DEPTH_TO_SPACE.
    """
    return _to_space(x.shape, block_size, data_format)(x)


@op(
    lambda call: call.x.with_shape(_space_to_depth(call).result),
    lambda call: _space_to_depth(call).kernel(),
    raw=True,
    gradient=gradients.SPACE_TO_DEPTH,
)
def space_to_depth(x: Array, *, block_size: int, data_format: str = "NHWC") -> Array:
    """Move blocks of block_size x block_size of space to depth, the inverse of depth_to_space.

    x [N, H, W, C] -> [N, H / b, W / b, b * b * C]; with data_format "NCHW" x [N, C, H, W] -> [N, b * b * C, H
    / b, W / b]. Raises ModelError unless x has rank 4, block_size >= 1 and it divides height and width.
    NeuralNetworks.h, ANEURALNETWORKS_SPACE_TO_DEPTH; tf.nn.space_to_depth (without its third layout,
    NCHW_VECT_C); TFLite schema, SpaceToDepthOptions.
    """
    return _to_depth(x.shape, block_size, data_format)(x)


class _Box(NamedTuple):
    """`cells` cells from `cell` on, in each of them `places` places of the block from `place` on."""

    cell: int
    cells: int
    place: int
    places: int


def _boxes(start: int, count: int, block: int) -> list[_Box]:
    """Return the positions start ... start + count - 1 as boxes."""
    boxes, end = [], start + count
    while start < end:
        cell, place = divmod(start, block)
        if place == 0 and end - start >= block:
            boxes.append(_Box(cell, (end - start) // block, 0, block))
        else:
            boxes.append(_Box(cell, 1, place, min(block - place, end - start)))
        start += boxes[-1].cells * boxes[-1].places
    return boxes


class _Blocks(NamedTuple):
    """An image [N, P1 ... PM, rest] and its form in blocks [b1 * ... * bM * N, S1 ... SM, rest].

    `front` is what the image's positions are shifted by: padding or cropping.
    """

    image: Shape
    split: Shape  # of the form in blocks: (b1 ... bM, N, S1 ... SM, rest)
    block: Shape
    front: Shape

    def copies(self, to_blocks: bool) -> list[Kernel]:
        """Make kernels that copy every position of the image into the blocks, or from there."""
        count = len(self.block)
        image, blocks = dense(self.image), dense(self.split)
        kernels = []
        runs = (_boxes(f, n, b) for f, n, b in zip(self.front, self.image[1:], self.block, strict=False))
        for boxes in itertools.product(*runs):
            columns = [(self.image[0], image[0], blocks[count]), (size_of(self.image[1 + count :]), 1, 1)]
            starts = [0, 0]
            for d, box in enumerate(boxes):
                step, cell, place = image[1 + d], blocks[count + 1 + d], blocks[d]
                columns += [(box.cells, step * self.block[d], cell), (box.places, step, place)]
                starts[0] += (box.cell * self.block[d] + box.place - self.front[d]) * step
                starts[1] += box.cell * cell + box.place * place
            source, target = (0, 1) if to_blocks else (1, 0)
            columns.sort(key=lambda column: -column[1 + target])
            sizes, *steps = zip(*columns, strict=True)
            kernels.append(
                strided_copy(
                    Read("x", 0),
                    sizes,
                    steps[source],
                    steps[target],
                    x_start=starts[source],
                    y_start=starts[target],
                    reason="in the result's order; whole blocks, and parts of blocks where there are any",
                )
            )
        return kernels


def _block_shape(call: Call) -> Shape:
    block = expect_ints(call, "block_shape")
    if not 1 <= len(block) < call.x.rank:
        call.fail(
            f"block_shape must have an entry for each of 1 to {call.x.rank - 1} spatial dimensions of "
            f"shape {list(call.x.shape)}, got {list(block)}"
        )
    if any(b < 1 for b in block):
        call.fail(f"block_shape must have entries >= 1, got {list(block)}")
    return block


def _batch_to_space(call: Call) -> _Blocks:
    block, shape = _block_shape(call), call.x.shape
    spatial = len(block)
    crops = expect_pairs(call, "crops", spatial)
    batch, rest = divmod(shape[0], size_of(block))
    if rest:
        call.fail(f"the batch must be divisible by the block's size {size_of(block)}, got {shape[0]}")
    sizes = tuple(n * b for n, b in zip(shape[1:], block, strict=False))
    cropped = tuple(n - sum(pair) for n, pair in zip(sizes, crops, strict=True))
    if any(n < 0 for n in cropped):
        call.fail(f"crops {crops} take away more than there is: {list(sizes)}")
    return _Blocks(
        (batch, *cropped, *shape[1 + spatial :]),
        (*block, batch, *shape[1:]),
        block,
        tuple(before for before, _ in crops),
    )


@op(
    lambda call: call.x.with_shape(_batch_to_space(call).image),
    lambda call: _batch_to_space(call).copies(to_blocks=False),
    raw=True,
    gradient=gradients.BATCH_TO_SPACE,
)
def batch_to_space_nd(x: Array, *, block_shape: Sequence[int], crops: Pairs) -> Array:
    """Join blocks from the batch in space, then crop.

    x [b1 * ... * bM * N, S1 ... SM, rest] -> [N, S1 * b1 - crops ..., rest]: batch entry (p1 ... pM, n)
    contains the places p of image n's blocks. block_shape has M >= 1 entries, crops M pairs (before, after).
    Raises ModelError unless all blocks are >= 1, their product divides the batch, crops are >= 0 and leave
    nothing negative, and M is less than x's rank. NNAPI 1.1 types.hal, OperationType::BATCH_TO_SPACE_ND (rank
    4, no crops there); TFLite schema, BatchToSpaceNDOptions.
    """
    count, shape = len(block_shape), x.shape
    split = (*block_shape, shape[0] // size_of(tuple(block_shape)), *shape[1:])
    pairs = [d for k in range(count) for d in (count + 1 + k, k)]
    y = x.reshape(split).transpose(count, *pairs, *range(2 * count + 1, len(split)))
    sizes = tuple(n * b for n, b in zip(shape[1:], block_shape, strict=False))
    y = y.reshape(split[count], *sizes, *shape[1 + count :])
    keep = [slice(before, n - after) for n, (before, after) in zip(sizes, crops, strict=True)]
    return y[(slice(None), *keep)]


def _space_to_batch(call: Call) -> _Blocks:
    block, shape = _block_shape(call), call.x.shape
    spatial = len(block)
    paddings = expect_pairs(call, "paddings", spatial)
    padded = tuple(n + sum(pair) for n, pair in zip(shape[1:], paddings, strict=False))
    if any(n % b for n, b in zip(padded, block, strict=True)):
        call.fail(f"block_shape {list(block)} must divide the padded spatial dimensions {list(padded)}")
    cells = tuple(n // b for n, b in zip(padded, block, strict=True))
    return _Blocks(
        shape,
        (*block, shape[0], *cells, *shape[1 + spatial :]),
        block,
        tuple(before for before, _ in paddings),
    )


def _infer_space_to_batch(call: Call) -> TensorType:
    expect_value(call)
    blocks = _space_to_batch(call)
    count = len(blocks.block)
    batch = size_of(blocks.split[: count + 1])
    return call.x.with_shape((batch, *blocks.split[count + 1 :]))


def _space_to_batch_kernels(call: Call) -> list[Kernel]:
    copies = _space_to_batch(call).copies(to_blocks=True)
    if call.x.size == call.y.size:
        return copies
    return [filled(call.y, call["value"], "padding everywhere, before the input is put in"), *copies]


@op(_infer_space_to_batch, _space_to_batch_kernels, raw=True, gradient=gradients.SPACE_TO_BATCH)
def space_to_batch_nd(x: Array, *, block_shape: Sequence[int], paddings: Pairs, value: float = 0.0) -> Array:
    """Pad with `value`, cut space into blocks, and make each place of the blocks a batch entry.

    x [N, P1 ... PM, rest] -> [b1 * ... * bM * N, (P1 + paddings) / b1 ..., rest], the inverse of
    batch_to_space_nd. block_shape has M >= 1 entries, paddings M pairs (before, after); `value` is a stored
    number, so the zero point for quantised tensors. Raises ModelError unless all blocks are >= 1 and divide
    the padded dimensions, paddings are >= 0, x's dtype can represent `value`, and M is less than x's rank.
    NNAPI 1.1 types.hal, OperationType::SPACE_TO_BATCH_ND (rank 4 there); TFLite schema,
    SpaceToBatchNDOptions.
    """
    count = len(block_shape)
    around = [(0, 0), *(tuple(pair) for pair in paddings), *[(0, 0)] * (x.ndim - 1 - count)]
    padded = np.pad(x, around, constant_values=x.dtype.type(value))
    batch, *spatial = padded.shape[: 1 + count]
    rest = padded.shape[1 + count :]
    cells = [n // b for n, b in zip(spatial, block_shape, strict=True)]
    split = [n for pair in zip(cells, block_shape, strict=True) for n in pair]
    y = padded.reshape(batch, *split, *rest)
    places, kept = range(2, 2 * count + 1, 2), range(1, 2 * count + 1, 2)
    y = y.transpose(*places, 0, *kept, *range(2 * count + 1, y.ndim))
    return y.reshape(batch * size_of(tuple(block_shape)), *cells, *rest)


OPS: tuple[Op, ...] = (depth_to_space, space_to_depth, batch_to_space_nd, space_to_batch_nd)
