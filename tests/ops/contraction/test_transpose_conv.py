"""transpose_conv2d against its float64 reference, that against the definition, and in integers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpunn.errors import ModelError
from gpunn.model import Model
from gpunn.ops import OPS
from gpunn.passes import optimise
from gpunn.types import Array, float32
from tests.ops.contraction.quantized_product import DTYPES, Case
from tests.ops.contraction.test_conv import tolerance
from tests.ops.harness import check, model_of, random

SHAPES: list[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
    ((2, 4, 5, 3), (8, 3, 3, 3), {"size": (8, 10), "stride": (2, 2), "padding": "same"}),
    ((1, 4, 5, 8), (4, 2, 2, 8), {"size": (8, 10), "stride": (2, 2), "activation": "relu"}),
    ((1, 3, 4, 5), (3, 3, 2, 5), {"size": (7, 4), "stride": (3, 1), "padding": "same"}),
    ((2, 3, 4, 4), (1, 4, 4, 4), {"size": (9, 13), "stride": (2, 3), "activation": "relu6"}),
    ((1, 3, 20, 2), (4, 2, 5, 2), {"size": (4, 24)}),
    ((1, 3, 3, 2), (5, 2, 2, 2), {"size": (8, 8), "stride": (3, 3)}),
    ((1, 3, 3, 2), (5, 1, 1, 2), {"size": (7, 7), "stride": (3, 3)}),
    ((1, 4, 3, 2), (4, 3, 3, 2), {"size": (6, 4), "stride": (2, 2), "padding": ((2, 1), (1, 2))}),
    ((1, 4, 6, 3), (5, 5, 7, 3), {"size": (9, 13), "stride": (3, 3), "padding": ((3, 2), (6, 3))}),
    ((2, 5, 1, 4), (3, 3, 3, 4), {"size": (5, 1), "padding": "same", "activation": "relu"}),
    ((0, 4, 5, 3), (8, 3, 3, 3), {"size": (8, 10), "stride": (2, 2), "padding": "same"}),
]


@pytest.mark.parametrize(("shape", "filter", "attrs"), SHAPES)
def test_transpose_conv2d(
    shape: tuple[int, ...], filter: tuple[int, ...], attrs: dict[str, Any], backend: str
) -> None:
    x, weights, bias = random(1, *shape), random(2, *filter), random(3, filter[0])
    for inputs in ([x, weights, bias], [x, weights]):
        atol = tolerance(x, weights)
        check("transpose_conv2d", inputs, attrs, backend=backend, constants=(1, 2), atol=atol)


def transposed(x: Array, filter: Array, attrs: dict[str, Any]) -> Array:
    """Return the product with the transpose of conv2d's matrix, column by column."""
    height, width = attrs["size"]
    channels = filter.shape[0]
    mode = {k: v for k, v in attrs.items() if k in ("stride", "padding")}
    unit = np.eye(height * width * channels).reshape(-1, height, width, channels)
    columns = OPS["conv2d"].reference(unit, np.swapaxes(filter, 0, 3), **mode)
    product = columns.reshape(len(unit), -1) @ x.reshape(len(x), -1).T
    return np.asarray(product.T.reshape(len(x), height, width, channels))


@pytest.mark.parametrize(("shape", "filter", "attrs"), SHAPES[:-1])
def test_it_is_the_transpose_of_conv2d(
    shape: tuple[int, ...], filter: tuple[int, ...], attrs: dict[str, Any]
) -> None:
    x, weights = random(1, *shape).astype(np.float64), random(2, *filter).astype(np.float64)
    real = {k: v for k, v in attrs.items() if k != "activation"}
    found = OPS["transpose_conv2d"].reference(x, weights, **real)
    np.testing.assert_allclose(found, transposed(x, weights, attrs), atol=1e-10)


@pytest.mark.parametrize("kind", DTYPES)
@pytest.mark.parametrize(("shape", "filter", "attrs"), SHAPES)
def test_integers(
    shape: tuple[int, ...], filter: tuple[int, ...], attrs: dict[str, Any], kind: str, backend: str
) -> None:
    Case("transpose_conv2d", kind, shape, filter, bias=shape[1] == 4).check(backend, attrs)


@pytest.mark.parametrize(("shape", "filter", "attrs"), SHAPES)
def test_a_computed_filter_is_packed_on_the_device(
    shape: tuple[int, ...], filter: tuple[int, ...], attrs: dict[str, Any], backend: str
) -> None:
    inputs = [random(1, *shape), random(2, *filter), random(3, filter[0])]
    for given in (inputs[:2], inputs):
        check("transpose_conv2d", given, attrs, backend=backend, atol=tolerance(*inputs[:2]))


def test_what_is_around_it_is_fused_before_it_becomes_a_convolution() -> None:
    model = Model()
    attrs = {"size": (8, 10), "stride": (2, 2), "padding": "same"}
    filter, scale = model.constant("w", random(2, 6, 3, 3, 4)), model.constant("s", random(3, 6))
    (y,) = model.add("transpose_conv2d", [model.input("x", float32(2, 4, 5, 4)), filter], attrs)
    (y,) = model.add("mul", [y, scale])
    model.output(*model.add("relu", [y]))
    optimised = optimise(model)
    assert [o.op for o in optimised.operations] == ["conv2d", "depth_to_space"]
    assert optimised.operations[0].activation == "relu"


@pytest.mark.parametrize(
    ("attrs", "message"),
    [
        ({"size": (8, 9)}, r"an output of \(8, 9\) comes of an input of \(6, 7\), got \(4, 5\)"),
        ({"size": (0, 9)}, "size must be positive"),
        ({"size": (6,)}, "size must have 2 entries"),
        ({"size": (6, 7), "stride": (0, 1)}, "stride must be two numbers"),
        ({"size": (6, 7), "padding": "full"}, "padding must be"),
    ],
)
def test_errors(attrs: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelError, match=f"transpose_conv2d: {message}"):
        model_of("transpose_conv2d", [random(0, 1, 4, 5, 2), random(1, 3, 3, 3, 2)], attrs)


def test_operands_must_fit() -> None:
    x = random(0, 1, 4, 5, 2)
    for filter, bias, message in (
        (random(1, 3, 3, 3, 1), None, "filter has 1 input channels, input has 2"),
        (random(1, 3, 3, 3, 2), random(0, 2), r"bias must have shape \[3\]"),
        (np.zeros((3, 3, 3, 2), np.int32), None, "input 1 must be float32"),
    ):
        with pytest.raises(ModelError, match=message):
            inputs = [x, filter] if bias is None else [x, filter, bias]
            model_of("transpose_conv2d", inputs, {"size": (6, 7)})
