"""A pad before an average pool becomes the pool's own padding, which does not count, and a product.

PyTorch's average pools count the zeros around an image, those of NNAPI and TFLite only what is inside it. A
sum of n cells divided by n, times n / size, is that sum divided by the size of the window. It is rounded two
times more, but the image is not copied.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gpunn.graph.graph import Graph
from gpunn.graph.operation import Operation
from gpunn.graph.writers import writers_of
from gpunn.ops import OPS
from gpunn.ops.kernels.window import Pair, along
from gpunn.ops.movement.basic import pad
from gpunn.passes.expand import GraphExpansion
from gpunn.passes.forms import MUL, readers_of, written_by
from gpunn.passes.fuse import explicit_padding
from gpunn.passes.rewrite import allowed, with_others
from gpunn.types import Array, DType

_POOL = OPS["average_pool2d"]


def fuse_average_pads(model: Graph) -> Graph:
    """Put a pool that pads and a product in the place of a pad of height and width and an average pool."""
    writers, readers = writers_of(model), readers_of(model)
    found: dict[Operation, list[Operation]] = {}
    for pool in model.operations:
        around = written_by(writers, pool.inputs[0], pad) if pool.definition is _POOL else None
        if around is not None and readers[pool.inputs[0]] == 1 and (made := _merged(around, pool)):
            found |= {around: [], pool: made}
    return with_others(model, found)


def _merged(around: Operation, pool: Operation) -> list[Operation]:
    """Return the pool with the pad's paddings, and the product; [] if it cannot have them."""
    (x, *_), (padded, *_), (y,) = around.inputs, pool.inputs, pool.outputs
    assert x is not None and padded is not None
    batch, *sides, channels = (tuple(pair) for pair in around.attrs["paddings"])
    if (
        x.type.dtype is not DType.FLOAT32
        or x.type.rank != 4
        or any((*batch, *channels))
        or around.attrs["value"]
    ):
        return []
    if any(map(any, explicit_padding(pool, padded))):
        return []
    to = GraphExpansion.of([x], y.name, around.origin)
    attrs = {**pool.attrs, "padding": tuple(sides), "activation": None}
    merged = replace(pool, inputs=(x,), attrs=attrs)
    if not allowed(merged):
        return []
    shares = [
        _inside(x.type.shape[1 + k], pool.attrs["size"][k], pool.attrs["stride"][k], sides[k]) for k in (0, 1)
    ]
    factors = to.constant(np.outer(*shares)[None, :, :, None].astype(np.float32))
    inside = to.add(_POOL.name, x, **attrs)
    result = to.add(MUL.name, inside, factors, activation=pool.attrs["activation"])
    return to.writing({result: y})


def _inside(length: int, size: int, stride: int, padding: Pair) -> Array:
    """Return for each window along an axis which share of it is not padding."""
    before, _, count = along(length, size, stride, 1, padding)
    starts = np.arange(count) * stride - before
    return (np.minimum(starts + size, length) - np.maximum(starts, 0)) / size
