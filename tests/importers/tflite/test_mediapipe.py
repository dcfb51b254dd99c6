"""The custom operators of MediaPipe's models: files of one operator each, with results worked out by hand."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np
import pytest

import gpunn
from gpunn import CustomOperator
from gpunn.custom import like, op
from gpunn.errors import FormatError
from gpunn.types import Array, TensorType, float32
from tests.ops.harness import random
from tests.tflite_builder import Graph

SAME, VALID = 1, 2  # TfLitePadding


def custom_file(
    name: str,
    inputs: Sequence[Array | TensorType],
    outputs: Sequence[TensorType],
    options: bytes,
    version: int = 1,
) -> bytes:
    """A file with one custom operator; arrays are constants."""
    graph = Graph()
    taken = [graph.input(i) if isinstance(i, TensorType) else graph.constant(i) for i in inputs]
    return graph.build(graph.add(name, taken, outputs, custom_options=options, version=version))


def pool(padding: int, stride: tuple[int, int], size: tuple[int, int], activation: int = 0) -> bytes:
    """TfLitePoolParams of stride and size as (height, width), with the fields that are computed."""
    return struct.pack("<10i", padding, *stride[::-1], *size[::-1], activation, 0, 0, 0, 0)


def transpose(padding: int, stride: tuple[int, int]) -> bytes:
    """TfLiteTransposeConvParams as of its first version."""
    return struct.pack("<3i", padding, *stride[::-1])


def spread(x: Array, filter: Array, bias: Array, stride: tuple[int, int], same: bool) -> Array:
    """MediaPipe's transposed convolution, pixel by pixel in float64."""
    (batch, height, width, _), (channels, rows, columns, _) = x.shape, filter.shape
    cut = [
        max(0, k - (n - 1) % s - 1) if same else 0
        for n, k, s in zip((height, width), (rows, columns), stride, strict=True)
    ]
    whole = np.zeros((batch, stride[0] * (height - 1) + rows, stride[1] * (width - 1) + columns, channels))
    for image, y, z in np.ndindex(batch, height, width):
        for ky, kx in np.ndindex(rows, columns):
            product = filter[:, ky, kx].astype(np.float64) @ x[image, y, z].astype(np.float64)
            whole[image, y * stride[0] + ky, z * stride[1] + kx] += product
    top, left = cut[0] // 2, cut[1] // 2
    high, wide = whole.shape[1] - cut[0], whole.shape[2] - cut[1]
    return np.asarray(whole[:, top : top + high, left : left + wide] + bias)


@pytest.mark.parametrize("same", [True, False])
@pytest.mark.parametrize(
    ("shape", "filter_shape", "stride"),
    [
        ((1, 4, 6, 8), (4, 2, 2, 8), (2, 2)),
        ((2, 3, 5, 3), (5, 3, 3, 3), (2, 2)),
        ((1, 3, 4, 1), (1, 1, 5, 1), (3, 2)),
        ((1, 5, 3, 4), (3, 4, 3, 4), (1, 3)),
    ],
)
def test_transposed_convolutions_with_a_bias(
    shape: tuple[int, ...], filter_shape: tuple[int, ...], stride: tuple[int, int], same: bool, backend: str
) -> None:
    x, filter, bias = random(0, *shape), random(1, *filter_shape), random(2, filter_shape[0])
    expected = spread(x, filter, bias, stride, same)
    options = transpose(SAME if same else VALID, stride)
    file = custom_file(
        "Convolution2DTransposeBias",
        [float32(*shape), filter, bias],
        [float32(*expected.shape)],
        options,
    )
    with gpunn.load(file).compile(backend=backend) as compiled:
        # sums of up to 8 * 12 products of numbers up to 4
        np.testing.assert_allclose(compiled(x), expected, rtol=1e-5, atol=96 * 16 * 6e-8)
        assert {p.backend for p in compiled.placement} - {"alias"} == {backend}


def test_a_transposed_convolution_by_hand(backend: str) -> None:
    """Two pixels, windows of 3 with a stride of 2: 2 * (1 - 1) + 3 cells in height; SAME cuts 2 and 1."""
    x = np.array([1, 10], np.float32).reshape(1, 1, 2, 1)
    filter = np.array([[1, 2, 3], [4, 5, 6], [7, 8, 9]], np.float32).reshape(1, 3, 3, 1)
    inputs = [float32(1, 1, 2, 1), filter, np.array([100], np.float32)]
    file = custom_file(
        "Convolution2DTransposeBias", inputs, [float32(1, 1, 4, 1)], transpose(SAME, (2, 2)) + bytes(8)
    )
    with gpunn.load(file).compile(backend=backend) as compiled:
        assert compiled(x).ravel().tolist() == [104, 105, 146, 150]


def test_pools_with_positions_by_hand(backend: str) -> None:
    x = np.array([[1, 5, -7, -2], [3, 2, -3, 9]], np.float32).reshape(1, 2, 4, 1)
    types = [float32(1, 1, 2, 1)] * 2
    file = custom_file("MaxPoolingWithArgmax2D", [float32(1, 2, 4, 1)], types, pool(VALID, (2, 2), (2, 2), 3))
    with gpunn.load(file).compile(backend=backend) as compiled:
        maxima, positions = compiled(x)
    assert maxima.ravel().tolist() == [5, 6]  # RELU6
    assert positions.ravel().tolist() == [np.float32(1) + np.float32(0.1), np.float32(3) + np.float32(0.1)]


def test_pools_with_padding_and_oblong_windows(backend: str) -> None:
    """Windows of 1 x 3, stride 2, SAME over 5 columns: they begin at -1, 1 and 3."""
    x = np.array([4, 1, 2, 3, 8], np.float32).reshape(1, 1, 5, 1)
    types = [float32(1, 1, 3, 1)] * 2
    file = custom_file("MaxPoolingWithArgmax2D", [float32(1, 1, 5, 1)], types, pool(SAME, (1, 2), (1, 3)))
    with gpunn.load(file).compile(backend=backend) as compiled:
        maxima, positions = compiled(x)
    assert maxima.ravel().tolist() == [4, 3, 8]
    assert positions.ravel().astype(int).tolist() == [1, 2, 1]


def test_unpooling_by_hand(backend: str) -> None:
    x = np.array([7, 8], np.float32).reshape(1, 1, 2, 1)
    positions = np.array([2.1, 1.9], np.float32).reshape(x.shape)
    types = [float32(1, 1, 2, 1)] * 2
    file = custom_file("MaxUnpooling2D", types, [float32(1, 2, 4, 1)], pool(SAME, (2, 2), (2, 2)))
    with gpunn.load(file).compile(backend=backend) as compiled:
        assert compiled(x, positions).reshape(2, 4).tolist() == [[0, 0, 0, 8], [7, 0, 0, 0]]


def test_a_pool_and_its_unpooling(backend: str) -> None:
    """Every maximum comes back to where it was."""
    x, small = random(3, 2, 6, 8, 5), float32(2, 3, 4, 5)
    graph, options = Graph(), pool(SAME, (2, 2), (2, 2))
    pooled = graph.add(
        "MaxPoolingWithArgmax2D", [graph.input(float32(2, 6, 8, 5))], [small] * 2, custom_options=options
    )
    file = graph.build(graph.add("MaxUnpooling2D", pooled, [float32(2, 6, 8, 5)], custom_options=options))
    with gpunn.load(file).compile(backend=backend) as compiled:
        blocks = x.reshape(2, 3, 2, 4, 2, 5)
        kept = np.where(blocks == blocks.max(axis=(2, 4), keepdims=True), blocks, 0)
        np.testing.assert_array_equal(compiled(x), kept.reshape(x.shape))
        assert {p.backend for p in compiled.placement} == {backend}


@pytest.mark.parametrize("name", ["MaxPoolingWithArgmax2D", "MaxUnpooling2D", "Convolution2DTransposeBias"])
@pytest.mark.parametrize(
    ("options", "message"),
    [
        (b"", "the custom options have 0 bytes"),
        (struct.pack("<2i", 1, 2), "the custom options have 8 bytes"),
        (pool(0, (2, 2), (2, 2)), "there is no padding number 0"),
        (pool(3, (2, 2), (2, 2)), "there is no padding number 3"),
        (pool(SAME, (0, 2), (2, 2)), "stride_height must be 1 or more, got 0"),
        (pool(SAME, (2, -1), (2, 2)), "stride_width must be 1 or more, got -1"),
    ],
)
def test_damaged_options_are_refused(name: str, options: bytes, message: str) -> None:
    inputs, outputs = {
        "MaxPoolingWithArgmax2D": (1, 2),
        "MaxUnpooling2D": (2, 1),
        "Convolution2DTransposeBias": (3, 1),
    }[name]
    file = custom_file(name, [float32(1, 2, 2, 1)] * inputs, [float32(1, 2, 2, 1)] * outputs, options)
    with pytest.raises(FormatError, match=message):
        gpunn.load(file)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (pool(SAME, (2, 2), (2, 0)), "filter_width must be 1 or more, got 0"),
        (pool(SAME, (2, 2), (2, 2), 4), "there is no fused activation number 4 of a pool"),
        (pool(SAME, (2, 2), (2, 2), -1), "there is no fused activation number -1 of a pool"),
    ],
)
def test_damaged_options_of_pools_are_refused(options: bytes, message: str) -> None:
    file = custom_file("MaxPoolingWithArgmax2D", [float32(1, 2, 2, 1)], [float32(1, 1, 1, 1)] * 2, options)
    with pytest.raises(FormatError, match=message):
        gpunn.load(file)


def test_other_numbers_of_inputs_are_refused() -> None:
    file = custom_file(
        "MaxUnpooling2D", [float32(1, 2, 2, 1)], [float32(1, 4, 4, 1)], pool(SAME, (2, 2), (2, 2))
    )
    with pytest.raises(FormatError, match="takes 2 inputs and gives 1, got 1 and 1"):
        gpunn.load(file)


@op(like)
def another_unpooling(x: Array, positions: Array) -> Array:
    """The values themselves."""
    return x + 0 * positions


def test_the_user_s_meaning_comes_first() -> None:
    file = custom_file("MaxUnpooling2D", [float32(1, 2)] * 2, [float32(1, 2)], b"")
    model = gpunn.load(file, custom={"MaxUnpooling2D": CustomOperator(another_unpooling, lambda _: {})})
    assert [o.op for o in model.operations] == ["another_unpooling"]
