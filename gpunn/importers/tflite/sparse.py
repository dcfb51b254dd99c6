"""Sparse constants of TFLite files: SparsityParameters, and the dense values that they stand for.

TensorFlow Lite schema, SparsityParameters: a tensor of n dimensions, k of which are cut into blocks, is
walked as n + k dimensions; those of the blocks come last. Each dimension, in the order of the walk, is dense,
or lists the indices of its elements for every place of the dimensions before it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tflite as schema

from gpunn.types import Array, Shape

VECTORS: Mapping[int, type] = {
    schema.SparseIndexVector.Int32Vector: schema.Int32Vector,
    schema.SparseIndexVector.Uint16Vector: schema.Uint16Vector,
    schema.SparseIndexVector.Uint8Vector: schema.Uint8Vector,
}
MAX_LEVELS = 16  # dimensions and blocks of them


@dataclass(frozen=True, slots=True, eq=False)
class Level:
    """One dimension of the walk: dense with `size` places, or places that a segment of `indices` lists."""

    size: int
    segments: Array | None = None
    indices: Array | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Sparsity:
    """The walk through a tensor's values: the dimension of each level (n + i: a block of blocks[i])."""

    order: tuple[int, ...]
    blocks: tuple[int, ...]
    levels: tuple[Level, ...]


Read = Callable[[Callable[[], Any], Callable[[], int]], tuple[int, ...]]  # from a vector, and its length


def read_sparsity(table: Any, read: Read) -> Sparsity:
    """Return what a table says; `read` reads a vector of integers, with bounds. Raises ValueError."""
    order = read(table.TraversalOrderAsNumpy, table.TraversalOrderLength)
    blocks = read(table.BlockMapAsNumpy, table.BlockMapLength)
    count = table.DimMetadataLength()
    if count > MAX_LEVELS or len(order) != count:
        raise ValueError(
            f"is walked along {len(order)} of {count} dimensions, at most {MAX_LEVELS} make sense"
        )
    return Sparsity(order, blocks, tuple(_level(table.DimMetadata(k), read) for k in range(count)))


def _level(table: Any, read: Read) -> Level:
    if table.Format() == schema.DimensionType.DENSE:
        return Level(table.DenseSize())
    found = []
    for kind, union in (
        (table.ArraySegmentsType(), table.ArraySegments()),
        (table.ArrayIndicesType(), table.ArrayIndices()),
    ):
        if kind not in VECTORS or union is None:
            raise ValueError(f"there are no vectors of indices number {kind}")
        vector = VECTORS[kind]()
        vector.Init(union.Bytes, union.Pos)
        found.append(np.array(read(vector.ValuesAsNumpy, vector.ValuesLength), np.int64))
    return Level(0, *found)


def dense(sparsity: Sparsity, shape: Shape, values: Array) -> Array:
    """Return the tensor of `shape` with these values where the walk comes to, and 0 elsewhere.

    Raises ValueError for a walk that leaves the tensor or has other than so many ends.
    """
    weights, extents = _walk(sparsity, shape)
    at = np.zeros(1, np.int64)
    for number, (level, weight, extent) in enumerate(zip(sparsity.levels, weights, extents, strict=True)):
        later = (len(v.segments) - 1 for v in sparsity.levels[number:] if v.segments is not None)
        most = next(later, len(values))  # places that the file has something for
        if level.segments is None or level.indices is None:
            if len(at) * extent > most:
                raise ValueError(f"has {len(at)} times {extent} places, of which the file names {most}")
            at = (at[:, None] + weight * np.arange(extent)).reshape(-1)
            continue
        counts, total = np.diff(level.segments), len(level.indices)
        if level.segments[:1].any() or len(counts) != len(at) or (counts < 0).any() or counts.sum() != total:
            raise ValueError(f"has segments that do not divide {total} indices among {len(at)} places")
        if ((level.indices < 0) | (level.indices >= extent)).any():
            raise ValueError(f"has indices outside of 0 ... {extent - 1}")
        at = np.repeat(at, counts) + weight * level.indices
    if len(at) != len(values):
        raise ValueError(f"has {len(values)} values for {len(at)} places")
    found: Array = np.zeros(math.prod(shape), values.dtype)
    found[at] = values
    return found.reshape(shape)


def _walk(sparsity: Sparsity, shape: Shape) -> tuple[Sequence[int], Sequence[int]]:
    """Return for each level the elements of a step, and the number of steps."""
    rank, blocks = len(shape), sparsity.blocks
    if sorted(sparsity.order) != list(range(rank + len(blocks))) or len(set(blocks)) != len(blocks):
        raise ValueError(f"is walked along {list(sparsity.order)} with blocks of {list(blocks)}")
    sizes = {d: level.size for d, level in zip(sparsity.order, sparsity.levels, strict=True)}
    block = dict.fromkeys(range(rank), 1)
    for number, of in enumerate(blocks):
        block[of] = sizes[rank + number]
    if any(not 0 <= of < rank or block[of] < 1 or shape[of] % block[of] for of in block):
        raise ValueError(f"has blocks of {[block[of] for of in blocks]} that do not divide its shape")
    step = [math.prod(shape[d + 1 :]) for d in range(rank)]
    weights = [step[d] * block[d] if d < rank else step[blocks[d - rank]] for d in sparsity.order]
    extents = [shape[d] // block[d] if d < rank else block[blocks[d - rank]] for d in sparsity.order]
    pairs = zip(sparsity.levels, extents, strict=True)
    if any(level.segments is None and level.size != extent for level, extent in pairs):
        raise ValueError(f"has dense dimensions of other extents than {extents}")
    return weights, extents
