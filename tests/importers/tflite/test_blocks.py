"""Weights of four and of two bits in which each block of a row has a scale of its own."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from gpunn.errors import FormatError, UnsupportedError
from gpunn.model import load
from gpunn.types import Array, DType, TensorType, float32
from tests.importers.tflite.test_packed import packed
from tests.tflite_builder import Graph, litert_run
from tests.tflite_parts import Blocks

ROWS, LENGTH, SIZE = 6, 64, 16
EACH = (ROWS, LENGTH // SIZE)
ZEROS = np.arange(24, dtype=np.int32).reshape(EACH)
I32 = DType.INT32


def weights(bits: int = 4) -> Array:
    half = 2 ** (bits - 1)
    return np.random.default_rng(bits).integers(-half, half, (ROWS, LENGTH))


def scales() -> Array:
    return (np.random.default_rng(7).random(EACH) * 0.1 + 0.02).astype(np.float16)


def reals(stored: Array, zeros: Array | float = 0) -> Array:
    """The real numbers of stored weights."""
    blocks = stored.reshape(*EACH, SIZE) - np.asarray(zeros)[..., None]
    found = blocks.astype(np.float32) * scales().astype(np.float32)[..., None]
    return np.asarray(found.reshape(ROWS, LENGTH), np.float32)


def table(graph: Graph, bits: int = 4, zeros: Array | None = None, size: int = SIZE) -> int:
    """Add the weights to a file; without zero points its blocks name the scales instead."""
    factors = graph.constant(scales())
    offsets = factors if zeros is None else graph.constant(zeros)
    type, blocks = TensorType(DType.INT8, (ROWS, LENGTH)), Blocks(factors, offsets, size)
    return graph.tensor(type, data=packed(weights(bits), bits), stored_as=f"INT{bits}", blocks=blocks)


def layer_file(bits: int = 4, zeros: Array | None = None, size: int = SIZE) -> bytes:
    graph = Graph()
    inputs = [graph.input(float32(3, LENGTH)), table(graph, bits, zeros, size), graph.constant(bias())]
    return graph.build(graph.add("FULLY_CONNECTED", inputs, [float32(3, ROWS)], version=12))


def lookup_file(result: DType, bits: int = 4, zeros: Array | None = None) -> bytes:
    graph = Graph()
    inputs = [graph.input(TensorType(I32, (3,))), table(graph, bits, zeros)]
    return graph.build(graph.add("EMBEDDING_LOOKUP", inputs, [TensorType(result, (3, LENGTH))], version=4))


def bias() -> Array:
    return np.linspace(-1, 1, ROWS, dtype=np.float32)


def steps() -> Array:
    """Rows with a range of 255 equal steps: LiteRT, which rounds a row to as many, loses nothing."""
    found = np.random.default_rng(3).integers(-128, 128, (3, LENGTH))
    found[:, :2] = -128, 127
    return np.asarray(found / 64, np.float32)


def close(found: Array, expected: Array) -> None:
    np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-5)


def test_products_with_blocks_of_four_bits_are_those_of_litert(backend: str) -> None:
    pytest.importorskip("ai_edge_litert", reason="ai-edge-litert, the independent oracle, is not installed")
    file, x = layer_file(), steps()
    with load(file).compile(backend=backend) as compiled:
        close(compiled(x), litert_run(file, [x])[0])
        assert [(p.operation.op, p.backend) for p in compiled.placement] == [("fully_connected", backend)]


@pytest.mark.parametrize("bits", [4, 2])
@pytest.mark.parametrize("zeros", [None, np.zeros(EACH, np.int32), ZEROS])
def test_products_are_computed_with_the_reals(bits: int, zeros: Array | None, backend: str) -> None:
    """LiteRT reads blocks of two bits only in EMBEDDING_LOOKUP, and ignores zero points."""
    x = np.random.default_rng(2).standard_normal((3, LENGTH)).astype(np.float32)
    expected = x @ reals(weights(bits), 0 if zeros is None else zeros).T + bias()
    with load(layer_file(bits, zeros)).compile(backend=backend) as compiled:
        np.testing.assert_allclose(compiled(x), expected, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("bits", [4, 2])
@pytest.mark.parametrize("result", [DType.FLOAT32, DType.FLOAT16])
def test_rows_of_a_table_are_those_of_litert(result: DType, bits: int, backend: str) -> None:
    pytest.importorskip("ai_edge_litert", reason="ai-edge-litert, the independent oracle, is not installed")
    file, rows = lookup_file(result, bits), np.array([5, 0, 5], np.int32)
    with load(file).compile(backend=backend) as compiled:
        found = compiled(rows)
        np.testing.assert_array_equal(found, litert_run(file, [rows])[0])
        np.testing.assert_array_equal(found, reals(weights(bits))[rows].astype(result.numpy))
        assert {p.backend for p in compiled.placement} <= {backend, "alias"}


def test_rows_of_a_table_have_their_zero_points(backend: str) -> None:
    rows = np.array([5, 0, 5], np.int32)
    with load(lookup_file(DType.FLOAT32, 4, ZEROS)).compile(backend=backend) as compiled:
        np.testing.assert_array_equal(compiled(rows), reals(weights(), ZEROS)[rows])


def test_products_with_blocks_are_compared_as_hybrid_ones() -> None:
    operation = load(layer_file()).operations[-1]
    assert operation.op == "fully_connected"
    filter = operation.inputs[1]
    assert filter is not None
    assert filter.hybrid


@pytest.mark.parametrize("size", [0, -16, 24])
def test_blocks_must_make_up_a_row(size: int) -> None:
    with pytest.raises(FormatError, match=f"does not consist of blocks of {size} elements in a row"):
        load(layer_file(size=size))


def file_with(blocks: Callable[[Graph], Blocks]) -> bytes:
    graph = Graph()
    x = graph.input(float32(3, LENGTH))
    type = TensorType(DType.INT8, (ROWS, LENGTH))
    found = blocks(graph)
    w = graph.tensor(type, data=packed(weights(), 4), stored_as="INT4", blocks=found)
    return graph.build(graph.add("FULLY_CONNECTED", [x, w], [float32(3, ROWS)]))


@pytest.mark.parametrize(
    "blocks",
    [
        lambda graph: Blocks(99, 0, SIZE),
        lambda graph: Blocks(-1, 0, SIZE),
        lambda graph: Blocks(graph.constant(scales()[:2]), 0, SIZE),
        lambda graph: Blocks(graph.constant(np.ones(EACH, np.int32)), 0, SIZE),
        lambda graph: Blocks(graph.tensor(TensorType(DType.FLOAT16, EACH)), 0, SIZE),
    ],
)
def test_scales_must_be_one_real_for_each_block(blocks: Callable[[Graph], Blocks]) -> None:
    with pytest.raises(FormatError, match=r"the scales of .* constants, FLOAT16 or FLOAT32 \[6, 4\]"):
        load(file_with(blocks))


def test_other_operators_take_no_blocks() -> None:
    graph = Graph()
    w = table(graph)
    file = graph.build(graph.add("ABS", [w], [TensorType(DType.INT8, (ROWS, LENGTH))]))
    with pytest.raises(UnsupportedError, match="which only EMBEDDING_LOOKUP and FULLY_CONNECTED take"):
        load(file)
