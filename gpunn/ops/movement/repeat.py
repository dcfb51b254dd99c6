"""Copies beside or around a tensor: tile, broadcast_to, broadcast_in_dim, mirror_pad.

dtype: any; the result has x's, including quantisation, and elements move as stored.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpunn.kernel import Kernel, Read, Unsupported, vec_width
from gpunn.ops.algebra import Algebra, same_shape
from gpunn.ops.axes import Axes, aligned_right, alike
from gpunn.ops.call import Call, broadcast_shapes
from gpunn.ops.check import expect_ints, expect_pairs
from gpunn.ops.expansion import Expansion, Tensor
from gpunn.ops.kernels.copies import bordered, strided_copy
from gpunn.ops.kernels.strides import broadcast_strides, dense
from gpunn.ops.movement import gradients
from gpunn.ops.op import Op, op
from gpunn.types import Array, Shape, TensorType

_EDGES = {"reflect": 0, "symmetric": 1}  # how often the border itself is repeated


def _infer_tile(call: Call) -> TensorType:
    multiples = expect_ints(call, "multiples", call.x.rank)
    if min(multiples, default=0) < 0:
        call.fail(f"multiples must be >= 0, got {list(multiples)}")
    return call.x.with_shape(tuple(n * m for n, m in zip(call.x.shape, multiples, strict=True)))


def _tile_kernel(call: Call) -> Kernel:
    """Make a kernel that walks a space with two dimensions for each of x's: the copy, and the place in it."""
    steps = dense(call.x.shape)
    pairs = zip(call["multiples"], call.x.shape, strict=True)
    sizes = tuple(n for pair in pairs for n in pair)
    walk = tuple(step for pair in zip((0,) * len(steps), steps, strict=True) for step in pair)
    return strided_copy(Read("x", 0), sizes, walk, dense(sizes), reason="in the result's order")


def _expand_tile(call: Call, to: Expansion, x: Tensor) -> Tensor:
    """Write copies along dimensions of 1 as a broadcast, which readers can do themselves."""
    if any(n != 1 and m != 1 for n, m in zip(call.x.shape, call["multiples"], strict=True)):
        raise Unsupported("copies along dimensions of 1 are broadcasts")
    return to.add("broadcast_to", x, shape=call.y.shape)


@op(
    _infer_tile,
    _tile_kernel,
    expand=_expand_tile,
    raw=True,
    strings=True,
    algebra=Algebra(axes=Axes(space=alike, each={"multiples": 1})),
    gradient=gradients.TILE,
)
def tile(x: Array, *, multiples: Sequence[int]) -> Array:
    """Repeat x multiples[d] times along each dimension d.

    Raises ModelError unless there is one number >= 0 for each dimension. TFLite schema, TileOptions.
    """
    return np.tile(x, tuple(multiples)) if x.ndim else x


def _infer_broadcast(call: Call) -> TensorType:
    shape = expect_ints(call, "shape")
    if any(n < 0 for n in shape) or broadcast_shapes(call, call.x.shape, shape) != shape:
        call.fail(f"{call.x} does not broadcast to shape {list(shape)}")
    return call.x.with_shape(shape)


def _broadcast_kernel(call: Call) -> Kernel:
    shape = call.y.shape
    walk = broadcast_strides(call.x.shape, shape)
    return strided_copy(Read("x", 0), shape, walk, dense(shape), reason="in the result's order")


@op(
    _infer_broadcast,
    _broadcast_kernel,
    raw=True,
    strings=True,
    algebra=Algebra(identity=same_shape, axes=Axes(space=aligned_right, shape="shape", broadcast=True)),
    gradient=gradients.BROADCAST,
)
def broadcast_to(x: Array, *, shape: Sequence[int]) -> Array:
    """Repeat x along dimensions of 1, and along new ones in front, to `shape`, as numpy broadcasts.

    Raises ModelError for a shape that x does not broadcast to. TFLite schema, BroadcastToOptions.
    """
    return np.broadcast_to(x, tuple(shape))


def _infer_broadcast_in_dim(call: Call) -> TensorType:
    x, shape, dims = call.x, expect_ints(call, "shape"), expect_ints(call, "dims")
    apart = len({*dims}) == len(dims) == x.rank and all(0 <= d < len(shape) for d in dims)
    if not apart or any(n not in (1, shape[d]) for n, d in zip(x.shape, dims, strict=True)):
        call.fail(f"dimensions {list(dims)} do not lead from {x} to {list(shape)}")
    return x.with_shape(shape)


def _in_order(shape: Shape, rank: int, dims: Sequence[int]) -> tuple[tuple[int, ...], Shape]:
    """Return the permutation of dimensions to the order of `dims`, and the shape with 1 for missing ones."""
    extents = dict(zip(dims, shape, strict=True))
    return tuple(sorted(range(len(dims)), key=dims.__getitem__)), tuple(
        extents.get(d, 1) for d in range(rank)
    )


def _expand_broadcast_in_dim(call: Call, to: Expansion, x: Tensor) -> Tensor:
    perm, shape = _in_order(call.x.shape, call.y.rank, call["dims"])
    alike = to.add("reshape", to.add("transpose", x, perm=perm), shape=shape)
    return to.add("broadcast_to", alike, shape=call.y.shape)


@op(_infer_broadcast_in_dim, expand=_expand_broadcast_in_dim, raw=True, strings=True)
def broadcast_in_dim(x: Array, *, shape: Sequence[int], dims: Sequence[int]) -> Array:
    """Repeat x to `shape`; its dimension k becomes dimension dims[k].

    Raises ModelError for dimensions that are not there or named twice, and for an extent that is neither 1
    nor that of the result. TFLite schema, StablehloBroadcastInDimOptions; StableHLO, broadcast_in_dim.
    """
    perm, alike = _in_order(x.shape, len(shape), dims)
    return np.broadcast_to(x.transpose(perm).reshape(alike), tuple(shape))


def _infer_mirror(call: Call) -> TensorType:
    if call["mode"] not in _EDGES:
        call.fail(f"mode must be {' or '.join(_EDGES)}, got {call['mode']!r}")
    pairs = expect_pairs(call, "paddings", call.x.rank)
    for d, (n, pair) in enumerate(zip(call.x.shape, pairs, strict=True)):
        most = max(n - 1 + _EDGES[call["mode"]], 0)
        if max(pair) > most:
            call.fail(f"dimension {d} of {n} elements has {most} to mirror ({call['mode']}), got {pair}")
    return call.x.with_shape(tuple(n + sum(pair) for n, pair in zip(call.x.shape, pairs, strict=True)))


def _mirror_space(call: Call) -> list[tuple[int, int, int]]:
    """Return for each dimension its size in y, its size in x, and the elements before; merged if possible."""
    merged: list[tuple[int, int, int]] = []
    paddings = expect_pairs(call, "paddings", call.x.rank)
    for n, out, (front, _) in zip(call.x.shape, call.y.shape, paddings, strict=True):
        if merged and n == out and merged[-1][0] == merged[-1][1]:
            merged[-1] = (merged[-1][0] * n, merged[-1][1] * n, 0)
        else:
            merged.append((out, n, front))
    return merged


def _mirror_kernel(call: Call) -> Kernel:
    space = _mirror_space(call)
    lanes = vec_width(space[-1][0]) if space and space[-1][0] == space[-1][1] else 1
    reason = "each element of the result is one of x's"
    return bordered(call.y, space, lanes, "mirror_pad", {"edge": _EDGES[call["mode"]]}, reason)


@op(
    _infer_mirror,
    _mirror_kernel,
    raw=True,
    strings=True,
    algebra=Algebra(axes=Axes(space=alike, each={"paddings": (0, 0)})),
    gradient=gradients.MIRROR_PAD,
)
def mirror_pad(x: Array, *, paddings: Sequence[tuple[int, int]], mode: str) -> Array:
    """Pad x with its mirror image: (before, after) elements for each dimension.

    mode "symmetric" repeats the border itself, "reflect" does not. Raises ModelError for another mode,
    negative paddings, unless there is one pair for each dimension, and for paddings over the extent (for
    "reflect", over the extent less one). TFLite schema, MirrorPadOptions.
    """
    pairs = [tuple(pair) for pair in paddings]
    if x.ndim == 0:
        return x
    if not x.size:  # numpy refuses to mirror an empty dimension, even nowhere
        return np.empty([n + sum(pair) for n, pair in zip(x.shape, pairs, strict=True)], x.dtype)
    return np.pad(x, pairs, mode="reflect" if mode == "reflect" else "symmetric")


OPS: tuple[Op, ...] = (tile, broadcast_to, broadcast_in_dim, mirror_pad)
