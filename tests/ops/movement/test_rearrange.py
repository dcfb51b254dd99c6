"""Space into depth and batch, and back: results are exact."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from gpunn.errors import ModelError
from gpunn.model import Model
from gpunn.ops.movement import rearrange
from gpunn.types import Array, DType, Quantization, TensorType
from tests.ops.harness import check, check_litert, model_of, random
from tests.ops.nnapi_cases import check_cases

EXACT: dict[str, Any] = {"atol": 0, "rtol": 0}


def as_grid(rows: list[list[int]]) -> Array:
    """Return rows of numbers as an image [1, H, W, 1]."""
    return np.array(rows, np.float32)[None, :, :, None]


# The three examples of seeds/space_to_depth.txt: input, and result for blocks of 2 x 2.
EXAMPLES = (
    (as_grid([[1, 2], [3, 4]]), np.arange(1, 5, dtype=np.float32).reshape(1, 1, 1, 4)),
    (
        np.arange(1, 13, dtype=np.float32).reshape(1, 2, 2, 3),
        np.arange(1, 13, dtype=np.float32).reshape(1, 1, 1, 12),
    ),
    (
        as_grid([[1, 2, 5, 6], [3, 4, 7, 8], [9, 10, 13, 14], [11, 12, 15, 16]]),
        np.arange(1, 17, dtype=np.float32).reshape(1, 2, 2, 4),
    ),
)


@pytest.mark.parametrize("example", range(3))
def test_documented_examples(example: int, backend: str) -> None:
    x, expected = EXAMPLES[example]
    (y,) = check("space_to_depth", [x], {"block_size": 2}, backend=backend, **EXACT)
    np.testing.assert_array_equal(y, expected)
    (back,) = check("depth_to_space", [expected], {"block_size": 2}, backend=backend, **EXACT)
    np.testing.assert_array_equal(back, x)


SHAPES = ((1, 4, 6, 3), (2, 3, 5, 4), (3, 2, 2, 1), (1, 5, 7, 8), (0, 2, 3, 2), (2, 1, 1, 5))


@pytest.mark.parametrize("data_format", ["NHWC", "NCHW"])
@pytest.mark.parametrize("block", [1, 2, 3])
def test_depth_and_space(block: int, data_format: str, backend: str) -> None:
    """The document's rule: the coordinates Y, X within a block are the high-order part of the depth index."""
    for seed, (n, h, w, c) in enumerate(SHAPES):
        attrs = {"block_size": block, "data_format": data_format}
        x = random(seed, n, h * block, w * block, c)
        expected = np.concatenate(
            [x[:, by::block, bx::block] for by in range(block) for bx in range(block)], axis=3
        )
        if data_format == "NCHW":
            x, expected = (np.ascontiguousarray(v.transpose(0, 3, 1, 2)) for v in (x, expected))
        (y,) = check("space_to_depth", [x], attrs, backend=backend, **EXACT)
        np.testing.assert_array_equal(y, expected)
        (back,) = check("depth_to_space", [y], attrs, backend=backend, **EXACT)
        np.testing.assert_array_equal(back, x)


@pytest.mark.parametrize("dtype", [np.int32, np.int8, np.uint8, np.bool_])
def test_other_dtypes(dtype: type, backend: str) -> None:
    x = np.random.default_rng(0).integers(-100, 100, (2, 4, 6, 3)).astype(dtype)
    blocks = {"block_shape": (2, 3)}
    pairs = [(1, 3), (2, 1)]
    for op, attrs in (
        ("space_to_depth", {"block_size": 2}),
        ("space_to_batch_nd", {**blocks, "paddings": pairs, "value": 1}),
    ):
        (y,) = check(op, [x], attrs, backend=backend, **EXACT)
        assert y.dtype == dtype
    check("batch_to_space_nd", [y], {**blocks, "crops": pairs}, backend=backend, **EXACT)


def by_definition(x: Array, block: tuple[int, ...], front: tuple[int, ...], y: Array) -> Array:
    """Fill y, a space in blocks, with x by looping over every position."""
    batch, count = x.shape[0], len(block)
    for position in itertools.product(*(range(n) for n in x.shape[1 : 1 + count])):
        shifted = [p + f for p, f in zip(position, front, strict=True)]
        cell = tuple(p // b for p, b in zip(shifted, block, strict=True))
        place = 0
        for p, b in zip(shifted, block, strict=True):
            place = place * b + p % b
        for n in range(batch):
            y[(place * batch + n, *cell)] = x[(n, *position)]
    return y


BLOCKS: tuple[tuple[tuple[int, ...], tuple[int, ...], list[tuple[int, int]]], ...] = (
    ((1, 4, 6, 3), (2, 2), [(0, 0), (0, 0)]),
    ((2, 4, 6, 4), (2, 3), [(2, 0), (0, 3)]),
    ((2, 5, 7, 3), (2, 3), [(1, 2), (2, 0)]),
    ((2, 5, 7, 8), (3, 4), [(2, 2), (5, 4)]),
    ((1, 1, 1, 1), (4, 4), [(2, 1), (1, 2)]),
    ((3, 7), (2,), [(0, 1)]),
    ((2, 9, 5), (4,), [(3, 0)]),
    ((2, 3, 4, 5, 2), (2, 2, 3), [(1, 0), (0, 2), (2, 2)]),
    ((2, 3, 5, 2, 3), (1, 5), [(0, 0), (3, 2)]),
    ((2, 0, 4, 3), (2, 2), [(1, 1), (0, 0)]),
    ((0, 4, 4, 3), (2, 2), [(0, 0), (0, 0)]),
)


@pytest.mark.parametrize("value", [0.0, -1.5])
def test_batch_and_space(value: float, backend: str) -> None:
    for seed, (shape, block, pairs) in enumerate(BLOCKS):
        x = random(seed, *shape)
        attrs = {"block_shape": block, "paddings": pairs, "value": value}
        (y,) = check("space_to_batch_nd", [x], attrs, backend=backend, **EXACT)
        front = tuple(before for before, _ in pairs)
        np.testing.assert_array_equal(y, by_definition(x, block, front, np.full_like(y, value)))
        attrs = {"block_shape": block, "crops": pairs}
        (back,) = check("batch_to_space_nd", [y], attrs, backend=backend, **EXACT)
        np.testing.assert_array_equal(back, x)


def test_generated_batch_and_space(backend: str) -> None:
    """Each of 25 runs pads a random shape to whole blocks, and then removes the padding."""
    generator = np.random.default_rng(7)
    for seed in range(25):
        count = int(generator.integers(1, 4))
        sizes = [int(n) for n in generator.integers(1, 8, count)]
        block = [int(b) for b in generator.integers(1, 5, count)]
        front = [int(n) for n in generator.integers(0, 6, count)]
        pairs = [(f, -(f + n) % b) for f, n, b in zip(front, sizes, block, strict=True)]
        depths = [int(n) for n in generator.choice([1, 3, 4, 8], int(generator.integers(0, 3)))]
        x = random(seed, int(generator.integers(1, 4)), *sizes, *depths)
        attrs = {"block_shape": block, "paddings": pairs, "value": 0.5}
        (y,) = check("space_to_batch_nd", [x], attrs, backend=backend, **EXACT)
        np.testing.assert_array_equal(y, by_definition(x, tuple(block), tuple(front), np.full_like(y, 0.5)))
        attrs = {"block_shape": block, "crops": pairs}
        (back,) = check("batch_to_space_nd", [y], attrs, backend=backend, **EXACT)
        np.testing.assert_array_equal(back, x)


def test_half_precision_and_quantisation(backend: str) -> None:
    x = random(0, 1, 2, 2, 3).astype(np.float16)
    check("space_to_depth", [x], {"block_size": 2}, backend=backend, **EXACT)
    model = Model("quantised")
    type = TensorType(DType.INT8, (1, 2, 2, 3), Quantization((0.5,), (3,)))
    model.output(*model.add("space_to_depth", [model.input("x", type)], {"block_size": 2}))
    assert model.outputs[0].type == type.with_shape((1, 1, 1, 12))
    stored = np.arange(-6, 6, dtype=np.int8).reshape(type.shape)
    with model.compile(backend=backend) as compilation:
        assert [p.backend for p in compilation.placement] == [backend]
        np.testing.assert_array_equal(compilation(stored), stored.reshape(1, 1, 1, 12))


def test_everything_cropped(backend: str) -> None:
    attrs = {"block_shape": (2, 2), "crops": [(3, 1), (0, 1)]}
    (y,) = check("batch_to_space_nd", [random(0, 4, 2, 3, 5)], attrs, backend=backend, **EXACT)
    assert y.shape == (1, 0, 5, 5)


def test_more_dimensions_than_the_shaders_support(backend: str) -> None:
    attrs = {"block_shape": (2, 2, 2, 2), "paddings": [(1, 1)] * 4}
    check("space_to_batch_nd", [random(0, 2, 6, 6, 6, 6, 3)], attrs, backend=backend, host="dim", **EXACT)


@pytest.mark.parametrize("block", [1, 2, 5])
def test_boxes_cover_a_run_once(block: int) -> None:
    for start, count in itertools.product(range(12), range(20)):
        boxes = rearrange._boxes(start, count, block)
        positions = [
            cell * block + place
            for box in boxes
            for cell in range(box.cell, box.cell + box.cells)
            for place in range(box.place, box.place + box.places)
        ]
        assert positions == list(range(start, start + count))
        assert len(boxes) <= 3


def test_agrees_with_litert() -> None:
    x = random(0, 2, 6, 4, 3)
    check_litert("space_to_depth", [x], {"block_size": 2}, "SPACE_TO_DEPTH", {"blockSize": 2})
    deep = random(0, 2, 3, 2, 12)
    check_litert("depth_to_space", [deep], {"block_size": 2}, "DEPTH_TO_SPACE", {"blockSize": 2})
    block, pairs = np.array([2, 3], np.int32), [(1, 3), (2, 0)]
    operands = [block, np.array(pairs, np.int32)]
    attrs = {"block_shape": (2, 3), "paddings": pairs}
    check_litert("space_to_batch_nd", [x], attrs, "SPACE_TO_BATCH_ND", operands=operands)
    cells = random(0, 12, 3, 2, 3)
    attrs = {"block_shape": (2, 3), "crops": pairs}
    check_litert("batch_to_space_nd", [cells], attrs, "BATCH_TO_SPACE_ND", operands=operands)


def test_conformance_of_depth_and_space(backend: str) -> None:
    def block(x: Array, size: Array) -> Any:
        return [x], {"block_size": int(size)}

    check_cases("SPACE_TO_DEPTH", "space_to_depth", block, backend)
    check_cases("DEPTH_TO_SPACE", "depth_to_space", block, backend)


def test_conformance_of_batch_and_space(backend: str) -> None:
    def crop(x: Array, block: Array) -> Any:
        return [x], {"block_shape": block.tolist(), "crops": [(0, 0)] * len(block)}

    def around(x: Array, block: Array, paddings: Array) -> Any:
        return [x], {"block_shape": block.tolist(), "paddings": paddings.tolist()}

    check_cases("BATCH_TO_SPACE_ND", "batch_to_space_nd", crop, backend)
    check_cases("SPACE_TO_BATCH_ND", "space_to_batch_nd", around, backend)


X = random(0, 4, 4, 6, 12)
CROP = {"block_shape": (2, 2), "crops": [(0, 0), (0, 0)]}
AROUND = {"block_shape": (2, 2), "paddings": [(0, 0), (0, 0)]}


@pytest.mark.parametrize(
    ("op", "x", "attrs", "message"),
    [
        ("space_to_depth", X[0], {"block_size": 2}, r"input 0 must have rank 4, got shape \[4, 6, 12\]"),
        ("space_to_depth", X, {"block_size": 0}, "block_size must be >= 1, got 0"),
        ("space_to_depth", X, {"block_size": 2.0}, "block_size must be an integer, got 2.0"),
        ("space_to_depth", X, {"block_size": 4}, "divisible by block_size 4, got 4 x 6"),
        (
            "space_to_depth",
            X,
            {"block_size": 4, "data_format": "NCHW"},
            "divisible by block_size 4, got 6 x 12",
        ),
        (
            "space_to_depth",
            X,
            {"block_size": 2, "data_format": "NCHW_VECT_C"},
            "data_format must be NHWC or NCHW, got 'NCHW_VECT_C'",
        ),
        ("depth_to_space", X[0], {"block_size": 2}, "input 0 must have rank 4"),
        ("depth_to_space", X, {"block_size": -1}, "block_size must be >= 1, got -1"),
        ("depth_to_space", X, {"block_size": 4}, r"depth must be divisible by .* = 16, got 12"),
        ("depth_to_space", X, {"block_size": 3, "data_format": "NCHW"}, "depth must be divisible .*got 4"),
        ("batch_to_space_nd", X, {**CROP, "block_shape": (2, 0)}, "entries >= 1, got"),
        ("batch_to_space_nd", X, {**CROP, "block_shape": ()}, "an entry for each of 1 to 3 spatial dim"),
        ("batch_to_space_nd", X, {**CROP, "block_shape": (2, 2, 1, 1)}, "an entry for each of 1 to 3"),
        ("batch_to_space_nd", X, {**CROP, "block_shape": (2, 3)}, "block's size 6, got 4"),
        ("batch_to_space_nd", X, {**CROP, "crops": [(0, 0)]}, "crops must have 2 entries, got 1"),
        ("batch_to_space_nd", X, {**CROP, "crops": [(0, -1), (0, 0)]}, "crops must be >= 0"),
        ("batch_to_space_nd", X, {**CROP, "crops": [(4, 5), (0, 0)]}, r"more than there is: \[8, 12\]"),
        ("space_to_batch_nd", X, {**AROUND, "block_shape": (3, 2)}, r"must divide .* \[4, 6\]"),
        ("space_to_batch_nd", X, {**AROUND, "paddings": [(0, 0), (0, 1)]}, r"must divide .* \[4, 7\]"),
        ("space_to_batch_nd", X, {**AROUND, "paddings": [1, 2]}, r"pairs \(before, after\), got"),
        ("space_to_batch_nd", X, {**AROUND, "paddings": [(-2, 0), (0, 0)]}, "paddings must be >= 0"),
        (
            "space_to_batch_nd",
            X.astype(np.uint8),
            {**AROUND, "value": 0.5},
            "value must be a number of uint8, got 0.5",
        ),
    ],
)
def test_errors(op: str, x: Array, attrs: dict[str, object], message: str) -> None:
    with pytest.raises(ModelError, match=f"{op}: .*{message}"):
        model_of(op, [x], attrs)
