"""conv2d and depthwise_conv2d: every kernel variant against float64 and LiteRT."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpunn.errors import ModelError
from gpunn.types import Array
from tests.ops.harness import ATOL, EPS, check, check_litert, model_of, random, take_body

SAME, VALID = 0, 1  # TFLite schema, Padding


def tolerance(x: Array, filter: Array) -> float:
    """A sum of n products, each at most m, is off by at most n * m * n * eps / 2 in float32 (Higham, Accuracy
    and Stability of Numerical Algorithms, section 3.1: gamma_n times the sum of the products' sizes). Numbers
    that are not finite do not count.
    """
    n = filter[0].size
    x_most, filter_most = (np.abs(a).max(initial=0, where=np.isfinite(a)) for a in (x, filter))
    return max(ATOL, n * EPS / 2 * n * float(x_most * filter_most))


def run(
    backend: str, x: Array, filter: Array, bias: Array | None, attrs: dict[str, Any], op: str = "conv2d"
) -> str:
    """Check a convolution with a constant filter; return the body of its kernel."""
    inputs = [x, filter] if bias is None else [x, filter, bias]
    terms = filter if op == "conv2d" else filter.reshape(-1, filter.shape[-1]).T
    check(op, inputs, attrs, backend=backend, constants=(1, 2), atol=tolerance(x, terms))
    with model_of(op, inputs, attrs, (1, 2)).compile(backend=backend) as compiled:
        return "".join(row.kernel.body for row in compiled.plan_rows())


ATTRS: list[dict[str, Any]] = [
    {},
    {"padding": "same"},
    {"padding": "same", "stride": (2, 2), "activation": "relu6"},
    {"padding": "valid", "stride": (1, 2), "dilation": (2, 1)},
    {"padding": ((1, 0), (2, 3)), "stride": (2, 1), "activation": "tanh"},
    {"padding": "same", "dilation": (2, 3), "activation": "relu"},
]


@pytest.mark.sample(2)
@pytest.mark.parametrize("attrs", ATTRS, ids=str)
@pytest.mark.parametrize(
    ("shape", "filter", "body"),
    [
        ((2, 9, 11, 8), (12, 3, 3, 8), "conv_tile"),
        ((1, 7, 8, 4), (5, 2, 3, 4), "conv_tile"),
        ((1, 10, 9, 3), (8, 3, 3, 3), "conv_direct"),
        ((3, 6, 7, 5), (7, 2, 2, 5), "conv_direct"),
        ((2, 8, 9, 6), (8, 3, 2, 3), "conv2d_grouped"),
        ((2, 8, 9, 6), (6, 3, 2, 3), "conv2d_grouped"),  # three output channels in a group
        ((2, 8, 9, 8), (16, 3, 2, 4), "conv_tile"),
        ((1, 7, 9, 24), (12, 3, 3, 8), "conv_tile"),  # four output channels in each of three groups
        ((1, 6, 5, 16), (16, 1, 1, 4), "conv_tile"),
        ((2, 8, 9, 6), (24, 2, 3, 2), "conv_direct"),
        ((1, 6, 5, 9), (24, 1, 2, 3), "conv_direct"),
        ((1, 4, 4, 32), (128, 1, 1, 1), "depthwise_conv2d"),  # a group for each channel
        ((2, 5, 4, 12), (24, 2, 2, 3), "conv_direct"),
        ((1, 7, 6, 8), (6, 3, 3, 4), "conv_tile"),  # 3 of 4 channels of a tile
        ((1, 5, 6, 6), (9, 3, 2, 2), "conv_direct"),
        ((1, 6, 5, 16), (14, 3, 3, 8), "conv_tile"),  # 7 of 8
        ((2, 3, 4, 8), (18, 2, 2, 4), "conv_tile"),  # 9 of 12
    ],
)
def test_conv2d(
    backend: str,
    shape: tuple[int, ...],
    filter: tuple[int, ...],
    body: str,
    attrs: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    take_body(monkeypatch, body)
    bias = random(3, filter[0])
    assert run(backend, random(1, *shape), random(2, *filter), bias, attrs) == (
        "" if backend == "cpu" else body
    )


@pytest.mark.parametrize("channels", [1, 4, 7, 8, 13, 16])
@pytest.mark.parametrize(
    ("shape", "depth", "body"),
    [((1, 5, 7), 8, "matmul_tile"), ((1, 1, 1), 12, "matmul_row"), ((1, 4, 3), 6, "conv_direct")],
)
def test_a_pointwise_convolution_is_a_matrix_product(
    backend: str,
    shape: tuple[int, int, int],
    depth: int,
    body: str,
    channels: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    take_body(monkeypatch, body)
    x, filter = random(1, *shape, depth), random(2, channels, 1, 1, depth)
    attrs = {"activation": "relu1"} if channels % 2 else {}
    bias = random(3, channels) if channels > 4 else None
    assert run(backend, x, filter, bias, attrs) == ("" if backend == "cpu" else body)


def test_a_strided_pointwise_convolution_skips_pixels(backend: str) -> None:
    run(backend, random(1, 1, 7, 9, 8), random(2, 8, 1, 1, 8), None, {"stride": (2, 3)})


def test_a_computed_filter(backend: str) -> None:
    x, filter, bias = random(1, 1, 6, 5, 4), random(2, 3, 2, 2, 4), random(3, 3)
    check("conv2d", [x, filter, bias], {"padding": "same"}, backend=backend, atol=tolerance(x, filter))
    x, filter, bias = random(1, 1, 6, 5, 4), random(2, 1, 2, 2, 8), random(3, 8)
    check("depthwise_conv2d", [x, filter, bias], {"padding": "same"}, backend=backend)


@pytest.mark.parametrize("attrs", ATTRS, ids=str)
@pytest.mark.parametrize(
    ("shape", "filter"),
    [
        ((2, 9, 11, 8), (3, 3, 8)),
        ((1, 8, 7, 5), (2, 3, 5)),
        ((1, 7, 9, 4), (3, 2, 12)),
        ((2, 6, 8, 3), (3, 3, 6)),
    ],
)
def test_depthwise_conv2d(
    backend: str, shape: tuple[int, ...], filter: tuple[int, ...], attrs: dict[str, Any]
) -> None:
    x, weights, bias = random(1, *shape), random(2, 1, *filter), random(3, filter[-1])
    run(backend, x, weights, bias, attrs, "depthwise_conv2d")
    run(backend, x, weights, None, attrs, "depthwise_conv2d")


@pytest.mark.parametrize("constants", [(1, 2), (2,)])
@pytest.mark.parametrize(
    ("channels", "filters", "computed"),
    [(1, 32, "conv2d"), (1, 5, "conv2d"), (1, 1, "depthwise_conv2d"), (2, 8, "depthwise_conv2d")],
)
def test_filters_on_one_channel(
    channels: int, filters: int, computed: str, constants: tuple[int, ...], backend: str
) -> None:
    """As LiteRT Torch writes convolutions of sounds and grey images."""
    inputs = [random(1, 2, 1, 50, channels), random(2, 1, 1, 9, filters), random(3, filters)]
    attrs = {"stride": (1, 4), "padding": "same", "activation": "relu"}
    check(
        "depthwise_conv2d", inputs, attrs, backend=backend, constants=constants, atol=tolerance(*inputs[:2])
    )
    with model_of("depthwise_conv2d", inputs, attrs, constants).compile(backend) as compiled:
        assert compiled.placement[-1].operation.op == computed


@pytest.mark.parametrize("op", ["conv2d", "depthwise_conv2d"])
def test_an_empty_batch_gives_an_empty_result(backend: str, op: str) -> None:
    filter = random(2, 8, 3, 3, 4) if op == "conv2d" else random(2, 1, 3, 3, 8)
    (result,) = check(op, [random(1, 0, 5, 5, 4), filter], {}, backend=backend, constants=(1,))
    assert result.shape == (0, 3, 3, 8)


def test_a_window_that_is_all_padding_gives_the_bias(backend: str) -> None:
    x, filter, bias = random(1, 1, 2, 2, 4), random(2, 8, 1, 1, 4), random(3, 8)
    (result,) = check(
        "conv2d", [x, filter, bias], {"padding": ((1, 1), (1, 1))}, backend=backend, constants=(1, 2)
    )
    np.testing.assert_allclose(result[0, 0, 0], bias, rtol=1e-6)


def test_hand_worked_numbers(backend: str) -> None:
    x = np.arange(1, 10, dtype=np.float32).reshape(1, 3, 3, 1)
    filter = np.array([1, 2, 3, 4], np.float32).reshape(1, 2, 2, 1)
    (valid,) = check("conv2d", [x, filter], {}, backend=backend, constants=(1,))
    assert valid.ravel().tolist() == [37, 47, 67, 77]
    (same,) = check(
        "conv2d", [x, filter], {"padding": "same", "stride": (2, 2)}, backend=backend, constants=(1,)
    )
    assert same.ravel().tolist() == [37, 21, 23, 9]  # the odd cell of padding is at the end


@pytest.mark.parametrize("padding", [SAME, VALID])
@pytest.mark.parametrize("stride", [(1, 1), (2, 3)])
@pytest.mark.parametrize("dilation", [(1, 1), (2, 1)])
def test_agrees_with_litert(padding: int, stride: tuple[int, int], dilation: tuple[int, int]) -> None:
    attrs = {"padding": ("same", "valid")[padding], "stride": stride, "dilation": dilation}
    options = {
        "padding": padding,
        "strideH": stride[0],
        "strideW": stride[1],
        "dilationHFactor": dilation[0],
        "dilationWFactor": dilation[1],
    }
    for filter in (random(2, 6, 3, 2, 4), random(2, 6, 3, 2, 2)):
        x = random(1, 2, 9, 10, 4)
        check_litert(
            "conv2d",
            [x, filter, random(3, 6)],
            attrs,
            "CONV_2D",
            options,
            version=2,
            atol=tolerance(x, filter),
        )
    x, filter = random(1, 2, 9, 10, 3), random(2, 1, 3, 2, 6)
    options["depthMultiplier"] = 2
    inputs, atol = [x, filter, random(3, 6)], tolerance(x, filter.reshape(-1, 6).T)
    check_litert("depthwise_conv2d", inputs, attrs, "DEPTHWISE_CONV_2D", options, version=2, atol=atol)


@pytest.mark.parametrize(
    ("op", "shapes", "attrs", "message"),
    [
        ("conv2d", [(1, 4, 4, 4), (2, 3, 3, 3)], {}, "filter has 3 input channels, input has 4"),
        ("conv2d", [(1, 4, 4, 4), (3, 3, 3, 2)], {}, "3 output channels cannot be divided into 2 groups"),
        ("conv2d", [(4, 4, 4), (2, 3, 3, 4)], {}, r"input 0 must have rank 4, got shape \[4, 4, 4\]"),
        (
            "conv2d",
            [(1, 4, 4, 4), (2, 5, 5, 4)],
            {},
            r"a window of \(5, 5\) with dilation \(1, 1\) does not fit",
        ),
        ("conv2d", [(1, 4, 4, 4), (2, 3, 3, 4), (3,)], {}, r"bias must have shape \[2\], got \[3\]"),
        (
            "conv2d",
            [(1, 4, 4, 4), (2, 3, 3, 4)],
            {"stride": (0, 1)},
            "stride must be two numbers of at least 1",
        ),
        ("conv2d", [(1, 4, 4, 4), (2, 3, 3, 4)], {"padding": "full"}, "padding must be 'same', 'valid' or"),
        (
            "conv2d",
            [(1, 4, 4, 4), (2, 3, 3, 4)],
            {"padding": ((-1, 0), (0, 0))},
            "padding must not be negative",
        ),
        ("depthwise_conv2d", [(1, 4, 4, 4), (1, 3, 3, 6)], {}, "filter has 6 channels, which is no multiple"),
        (
            "depthwise_conv2d",
            [(1, 4, 4, 4), (2, 3, 3, 4)],
            {},
            r"filter must have shape \[1, height, width, channels\]",
        ),
    ],
)
def test_errors(op: str, shapes: list[tuple[int, ...]], attrs: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelError, match=f"{op}: {message}"):
        model_of(op, [random(i, *s) for i, s in enumerate(shapes)], attrs)
