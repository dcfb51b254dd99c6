"""Sparse constants: unfolded for DENSIFY, and for operators that read them directly."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gpunn.errors import FormatError, UnsupportedError
from gpunn.model import load
from gpunn.types import Array, DType, TensorType, float32
from tests.ops.harness import random, type_of
from tests.ops.quantized import quantized
from tests.tflite_builder import Graph, litert_run
from tests.tflite_parts import Sparsity


def sparse(value: Array, order: Sequence[int], blocks: dict[int, int], formats: str, width: str) -> Any:
    """Return values in the order of traversal, and SparsityParameters; formats: d (dense) or s by level.

    A sparse level leaves out places below which all values are 0.
    """
    rank, of = value.ndim, list(blocks)
    size = [n // blocks.get(d, 1) for d, n in enumerate(value.shape)] + list(blocks.values())
    cut = value.reshape([n for d in range(rank) for n in (size[d], blocks.get(d, 1))])
    places = {d: 2 * d for d in range(rank)} | {rank + k: 2 * d + 1 for k, d in enumerate(of)}
    ones = [2 * d + 1 for d in range(rank) if d not in blocks]
    walked = cut.transpose([*(places[d] for d in order), *ones]).reshape([size[d] for d in order])
    paths: list[tuple[int, ...]] = [()]
    levels: list[Any] = []
    for number, d in enumerate(order):
        every = [[(*path, i) for i in range(size[d])] for path in paths]
        if formats[number] == "s":
            every = [[path for path in group if walked[path].any()] for group in every]
            segments = [0, *itertools.accumulate(map(len, every))]
            levels.append((segments, [path[-1] for group in every for path in group]))
        else:
            levels.append(size[d])
        paths = list(itertools.chain.from_iterable(every))
    return np.array([walked[path] for path in paths], value.dtype), Sparsity(order, of, levels, width)


def pruned(seed: int, *shape: int) -> Array:
    """Return numbers of which most are 0."""
    return random(seed, *shape) * (random(seed + 1, *shape) > 2)


WALKS: dict[str, tuple[tuple[int, ...], Sequence[int], dict[int, int], str, str]] = {
    "rows": ((5, 8), (0, 1), {}, "ds", "Int32"),
    "columns": ((5, 8), (1, 0), {}, "ds", "Uint8"),
    "both": ((5, 8), (0, 1), {}, "ss", "Uint16"),
    "dense": ((5, 8), (1, 0), {}, "dd", "Int32"),
    "blocks of a row": ((4, 8), (0, 1, 2), {1: 4}, "dsd", "Uint8"),
    "blocks of sixteen": ((4, 32), (0, 1, 2), {1: 16}, "dsd", "Int32"),
    "blocks of both": ((6, 8), (0, 1, 2, 3), {0: 2, 1: 4}, "dsdd", "Uint8"),
    "four dimensions": ((3, 2, 2, 8), (0, 1, 2, 3), {}, "ddds", "Uint8"),
    "blocks among four": ((4, 2, 2, 8), (0, 1, 2, 3, 4), {3: 4}, "dddsd", "Uint16"),
}


def densify(value: Array, walk: Sequence[Any], type: TensorType | None = None) -> tuple[bytes, Array]:
    """Return a file that adds a sparse constant to an input, and a sample of the input."""
    graph, type = Graph(), type or type_of(value)
    values, sparsity = sparse(value, *walk)
    x = graph.input(type)
    constant = graph.tensor(type, data=values.tobytes(), sparsity=sparsity)
    (found,) = graph.add("DENSIFY", [constant], [type])
    return graph.build(
        graph.add("CONCATENATION", [x, found], [type.with_shape((2 * type.shape[0], *type.shape[1:]))])
    )


@pytest.mark.parametrize("walk", WALKS.values(), ids=WALKS)
def test_densify(walk: Any, backend: str) -> None:
    value = pruned(1, *walk[0])
    file = densify(value, walk[1:])
    x = random(3, *walk[0])
    with load(file).compile(backend=backend) as compiled:
        found = compiled(x)
    np.testing.assert_array_equal(found, np.concatenate([x, value]))
    np.testing.assert_array_equal(found, litert_run(file, [x])[0])


@pytest.mark.parametrize("dtype", [DType.INT8, DType.FLOAT16], ids=lambda d: d.value)
def test_weights_that_densify_and_dequantize(dtype: DType, backend: str) -> None:
    """A file like those of pruning and quantisation: DENSIFY, DEQUANTIZE, and an operator on reals."""
    type = quantized(DType.INT8, (6, 8), 0.05) if dtype is DType.INT8 else TensorType(dtype, (6, 8))
    value = np.round(pruned(1, 6, 8) * 20).astype(dtype.numpy)
    values, sparsity = sparse(value, *WALKS["rows"][1:])
    graph = Graph()
    x = graph.input(float32(3, 8))
    weights = graph.tensor(type, data=values.tobytes(), sparsity=sparsity)
    (found,) = graph.add("DENSIFY", [weights], [type])
    (reals,) = graph.add("DEQUANTIZE", [found], [float32(6, 8)], version=3 if dtype is DType.FLOAT16 else 2)
    file = graph.build(graph.add("FULLY_CONNECTED", [x, reals], [float32(3, 6)]))
    sample = random(5, 3, 8)
    with load(file).compile(backend=backend) as compiled:
        np.testing.assert_allclose(compiled(sample), litert_run(file, [sample])[0], rtol=2e-5, atol=2e-5 * 20)


@pytest.mark.parametrize("densified", [False, True], ids=["as it is", "densified"])
@pytest.mark.parametrize(
    ("integer", "walk"), [(False, "rows"), (False, "blocks of a row"), (True, "blocks of sixteen")]
)
def test_fully_connected(integer: bool, walk: str, densified: bool, backend: str) -> None:
    """LiteRT takes sparse int8 weights in blocks of 16, and rounds real inputs to 127 steps."""
    shape, *how = WALKS[walk]
    value = pruned(1, *shape)
    type = quantized(DType.INT8, shape, 0.05) if integer else float32(*shape)
    values, sparsity = sparse(np.round(value * 20).astype(np.int8) if integer else value, *how)
    graph = Graph()
    x = graph.input(float32(3, shape[1]))
    weights = graph.tensor(type, data=values.tobytes(), sparsity=sparsity)
    if densified:
        (weights,) = graph.add("DENSIFY", [weights], [type])
    bias = graph.constant(random(7, shape[0]))
    (y,) = graph.add("FULLY_CONNECTED", [x, weights, bias], [float32(3, shape[0])], version=8)
    file, sample = graph.build([y]), random(5, 3, shape[1])
    step = np.abs(sample).max() / 127
    near = np.abs(value).sum(axis=1).max() * step if integer else 2e-5
    with load(file).compile(backend=backend) as compiled:
        np.testing.assert_allclose(compiled(sample), litert_run(file, [sample])[0], rtol=2e-5, atol=near)


PLAIN = Sparsity((0, 1), (), [2, ((0, 1, 2), (3, 0))])
BLOCKS = Sparsity((0, 1, 2), (1,), [2, ((0, 1, 2), (1, 0)), 2])
WRONG: dict[str, tuple[Sparsity, int, str]] = {
    "values": (PLAIN, 3, "has 3 values for 2 places"),
    "walk": (replace(PLAIN, order=(0, 0)), 2, r"walked along .0, 0. with blocks of .."),
    "short walk": (replace(PLAIN, order=(0,)), 2, "walked along 1 of 2 dimensions"),
    "long walk": (replace(PLAIN, order=(*range(17),), levels=[1] * 17), 2, "at most 16 make sense"),
    "no walk": (Sparsity((), (), ()), 2, r"walked along .. with blocks of .."),
    "extent": (
        replace(PLAIN, levels=[3, PLAIN.levels[1]]),
        2,
        r"dense dimensions of other extents than .2, 4.",
    ),
    "index": (replace(PLAIN, levels=[2, ((0, 1, 2), (4, 0))]), 2, "indices outside of 0 ... 3"),
    "negative index": (replace(PLAIN, levels=[2, ((0, 1, 2), (-1, 0))]), 2, "indices outside of 0 ... 3"),
    "segments": (
        replace(PLAIN, levels=[2, ((0, 2), (3, 0))]),
        2,
        "1 times 2 places, of which the file names 1",
    ),
    "descending": (
        replace(PLAIN, levels=[2, ((0, 3, 2), (3, 0))]),
        2,
        "segments that do not divide 2 indices",
    ),
    "late": (
        replace(PLAIN, levels=[2, ((1, 2, 3), (3, 0))]),
        2,
        "segments that do not divide 2 indices",
    ),
    "few indices": (
        replace(PLAIN, levels=[2, ((0, 1, 3), (3, 0))]),
        2,
        "segments that do not divide 2 indices",
    ),
    "no segments": (replace(PLAIN, levels=[2, ((), ())]), 2, "places"),
    "block": (replace(BLOCKS, levels=[2, ((0, 1, 2), (1, 0)), 3]), 4, "do not divide its shape"),
    "no block": (replace(BLOCKS, levels=[2, ((0, 1, 2), (1, 0)), 0]), 4, "do not divide its shape"),
    "block of nothing": (replace(BLOCKS, blocks=(2,)), 4, "do not divide its shape|cannot be read"),
    "two blocks of one": (Sparsity((0, 1, 2, 3), (1, 1), [2, 4, 1, 1]), 8, "with blocks of .1, 1."),
    "all places": (Sparsity((0, 1), (), [2, 4]), 7, "2 times 4 places, of which the file names 7"),
}


@pytest.mark.parametrize(("sparsity", "count", "reason"), WRONG.values(), ids=WRONG)
def test_wrong_sparsity_is_refused(sparsity: Sparsity, count: int, reason: str) -> None:
    graph = Graph()
    constant = graph.tensor(float32(2, 4), data=bytes(4 * count), sparsity=sparsity)
    with pytest.raises(FormatError, match=f"cannot be read .*({reason})"):
        load(graph.build(graph.add("DENSIFY", [constant], [float32(2, 4)])))


def test_a_small_file_cannot_unfold_to_much() -> None:
    """A file states two numbers in a tensor of 4 GiB."""
    graph, type = Graph(), float32(1 << 15, 1 << 15)
    sparsity = Sparsity((1, 0), (), [((0, 1), (7,)), ((0, 2), (0, 9))])
    constant = graph.tensor(type, data=bytes(8), sparsity=sparsity)
    with pytest.raises(UnsupportedError, match="constants unfold to 4294967296 bytes"):
        load(graph.build(graph.add("DENSIFY", [constant], [type])))
