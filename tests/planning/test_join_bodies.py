"""Bodies that find the rows of an operand in a larger tensor by two parameters: products and convolutions."""

from __future__ import annotations

import numpy as np
import pytest

from gpunn.backends.webgpu.shader import key_of
from gpunn.graph.operation import Operand
from gpunn.model import Model
from gpunn.ops.kernels.register_tile import LARGE_TILES, SMALL_TILE, RegisterTile
from gpunn.types import DType, Quantization, Shape, TensorType, float32
from tests.planning.appending import add, constant, conv, depthwise, dispatches, pointwise, whole
from tests.planning.joining import (
    Reader,
    clamped,
    concat,
    copied,
    gated,
    prepended,
    product,
    read_apart,
    values,
)
from tests.planning.preferring import BODIES, has_tile, prefer, prefer_tile


def convolved(model: Model, x: Operand) -> Operand:
    return add(model, "round", conv(model, x, 33))


@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("shape", [(1, 4, 4, 8), (2, 5, 3, 4), (2, 3, 3, 12)], ids=str)
@pytest.mark.parametrize(
    ("reader", "last"), [(product, "conv2d"), (prepended, "mul+add+conv2d"), (gated, "mul+conv2d")]
)
def test_each_body_of_products_finds_rows(
    gpu: str, body: str, shape: tuple[int, ...], reader: Reader, last: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    prefer(monkeypatch, body)
    model = read_apart(shape, reader)
    assert copied(model, values(model)) == 0
    with model.compile("webgpu") as compiled:
        assert compiled.plan_rows()[-1].kernel.body == body
        assert dispatches(compiled)[-1] == last


@pytest.mark.sample(2)
@pytest.mark.parametrize("reader", [product, prepended, gated, convolved])
@pytest.mark.parametrize("tile", [SMALL_TILE, *LARGE_TILES], ids=str)
@pytest.mark.parametrize("shape", [(2, 5, 3, 8), (1, 3, 3, 12)], ids=str)
def test_each_register_tile_finds_rows(
    gpu: str, tile: RegisterTile, shape: Shape, reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    prefer_tile(monkeypatch, tile)
    model = read_apart(shape, reader)
    assert copied(model, values(model)) == 0
    with model.compile("webgpu") as compiled:
        assert any(has_tile(tile, row.kernel) for row in compiled.plan_rows())


def of_a_computed_matrix(model: Model, x: Operand) -> Operand:
    rows = add(model, "reshape", x, shape=(-1, x.type.shape[3]))
    return add(model, "fully_connected", rows, model.input("w", float32(8, x.type.shape[3])))


@pytest.mark.parametrize("depth", [8, 7])
def test_products_of_computed_matrices_find_rows(
    gpu: str, depth: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    prefer(monkeypatch, "matmul_workgroup")
    model = read_apart((2, 3, 3, depth), of_a_computed_matrix)
    assert copied(model, values(model)) == 0
    with model.compile("webgpu") as compiled:
        assert compiled.plan_rows()[-1].kernel.body == "matmul_workgroup"


def test_products_with_and_without_a_sum_share_a_pipeline(gpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sum is that with a part in a larger tensor, whose place both have parameters for."""
    prefer(monkeypatch, "matmul_broadcast")
    model = Model("shared")
    part, rest, x = (clamped(model, model.input(name, float32(1, 4, 4, 8))) for name in "xyz")
    total = add(model, "add", pointwise(model, x, 8), part)
    model.output(concat(model, rest, part, axis=3), total, pointwise(model, x, 8))
    assert copied(model, values(model)) == 0
    with model.compile("webgpu") as compiled:
        rows = [row for row in compiled.plan_rows() if row.kernel.body == "matmul_broadcast"]
        assert [row.kernel.params["then_on"] for row in rows] == [1, 0]
        assert len({key_of(row.kernel, row.operation) for row in rows}) == 1


def convolved_by_channel(model: Model, x: Operand) -> Operand:
    return depthwise(model, x, x.type.shape[3])


def convolved_in_two(model: Model, x: Operand) -> Operand:
    """Every other pixel, each channel twice."""
    filter = constant(model, 1, 3, 3, 2 * x.type.shape[3])
    return add(model, "depthwise_conv2d", x, filter, stride=(2, 2), padding="same")


def convolved_in_depth(model: Model, x: Operand) -> Operand:
    volume = add(model, "reshape", x, shape=(x.type.shape[0], 1, *x.type.shape[1:]))
    return add(model, "conv3d", volume, constant(model, 1, 3, 3, x.type.shape[3], 8), padding="same")


CONVOLUTIONS: list[tuple[str, Shape, Reader]] = [
    ("conv_tile", (2, 5, 3, 8), convolved),
    ("conv_tile", (1, 5, 6, 8), convolved_in_depth),
    ("conv_direct", (2, 5, 3, 7), convolved),
    ("conv_direct", (1, 4, 4, 7), product),
    ("conv_broadcast", (2, 5, 7, 8), convolved),
    ("conv_direct_broadcast", (2, 5, 7, 6), convolved),
    ("conv_workgroup", (2, 5, 3, 8), convolved),
    ("conv_direct_workgroup", (2, 5, 3, 7), convolved),
    ("winograd_input", (1, 9, 7, 16), convolved),
    ("unfold", (1, 9, 7, 3), convolved),
    ("depthwise_conv2d", (2, 5, 7, 8), convolved_by_channel),
    ("depthwise_strip", (2, 5, 7, 8), convolved_by_channel),
    ("depthwise_strip", (2, 5, 7, 3), convolved_in_two),
]


def compiled_with(body: str, monkeypatch: pytest.MonkeyPatch, model: Model) -> int:
    """Run a model where the kernels of a body come first, and count the dispatches of its joins."""
    prefer(monkeypatch, body)
    left = copied(model, values(model))
    with model.compile("webgpu") as compiled:
        assert body in [row.kernel.body for row in compiled.plan_rows()]
    return left


@pytest.mark.parametrize(("body", "shape", "reader"), CONVOLUTIONS)
def test_each_body_of_convolutions_finds_pixels(
    gpu: str, body: str, shape: Shape, reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert compiled_with(body, monkeypatch, read_apart(shape, reader)) == 0


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("body", "shape", "reader"), [*CONVOLUTIONS, *((body, (2, 5, 3, 8), product) for body in BODIES)]
)
def test_no_body_stores_behind_its_result(
    gpu: str, body: str, shape: Shape, reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What lies there was written before."""
    apart = Model("apart")
    *outer, channels = reader(apart, apart.input("x", float32(*shape))).type.shape
    model = Model("behind")
    behind, beside = (
        clamped(model, model.input(name, float32(*outer, count)))
        for name, count in (("behind", 2 * channels), ("beside", channels))
    )
    part = reader(model, model.input("x", float32(*shape)))
    model.output(concat(model, concat(model, part, beside, axis=-1), behind, axis=0))
    assert compiled_with(body, monkeypatch, model) == 0


@pytest.mark.parametrize(("channels", "other", "left"), [(16, 32, 0), (16, 4, 1), (4, 4, 0), (12, 8, 0)])
def test_words_of_pixels_are_found_where_they_are_copied_whole(
    gpu: str, channels: int, other: int, left: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 16 channels of a byte, four words are copied at once."""
    prefer(monkeypatch, "unfold")
    model, scale = Model("words"), Quantization((0.1,), (-3,))
    part, rest = (
        clamped(model, model.input(name, TensorType(DType.INT8, (1, 9, 7, count), scale)))
        for name, count in (("x", channels), ("y", other))
    )
    weights = whole(128, 3, 3, channels, dtype=np.int8)
    filter = model.constant("w", weights, TensorType(DType.INT8, weights.shape, Quantization((0.05,), (0,))))
    (seen,) = model.add("conv2d", [part, filter], {"padding": "same"}, quantization=[scale])
    model.output(concat(model, rest, part, axis=3), seen)
    inputs = [np.random.default_rng(k).integers(-128, 128, i.type.shape) for k, i in enumerate(model.inputs)]
    assert copied(model, [x.astype(np.int8) for x in inputs]) == left
    with model.compile("webgpu") as compiled:
        assert "unfold" in [row.kernel.body for row in compiled.plan_rows()]
