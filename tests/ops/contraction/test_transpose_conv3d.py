"""Transpose convolution over depth, height and width: cell by cell, as the gradient of conv3d, and LiteRT."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from gpunn.errors import ModelError
from gpunn.ops import OPS
from gpunn.ops.kernels.window import along
from gpunn.types import Array
from tests.ops.harness import EPS, check, model_of, random

# Size of the result, of the filter, and attributes.
CASES: list[tuple[Sequence[int], Sequence[int], dict[str, Any]]] = [
    ((3, 4, 5), (2, 2, 3), {}),
    ((5, 6, 7), (1, 3, 2), {"stride": (2, 1, 3)}),
    ((5, 6, 7), (3, 3, 3), {"stride": (2, 2, 2), "padding": "same"}),
    ((6, 5, 4), (2, 3, 2), {"dilation": (2, 1, 2), "padding": "same"}),
    ((7, 6, 8), (2, 3, 2), {"stride": (2, 1, 2), "dilation": (1, 2, 3)}),
    ((4, 4, 4), (1, 1, 1), {"stride": (3, 2, 1)}),
]


def inputs_of(size: Sequence[int], filter: Sequence[int], attrs: Mapping[str, Any]) -> list[Array]:
    """x, filter and bias that fit."""
    stride, dilation = (attrs.get(name, (1, 1, 1)) for name in ("stride", "dilation"))
    padding = attrs.get("padding", "valid")
    extents = [along(*a, padding)[2] for a in zip(size, filter, stride, dilation, strict=True)]
    return [random(1, 2, *extents, 3), random(2, *filter, 5, 3), random(3, 5)]


def spread(inputs: Sequence[Array], size: Sequence[int], attrs: Mapping[str, Any]) -> Array:
    """Add up what every element of x contributes to the result."""
    x, filter, bias = (v.astype(np.float64) for v in inputs)
    stride, dilation = (attrs.get(name, (1, 1, 1)) for name in ("stride", "dilation"))
    padding = attrs.get("padding", "valid")
    axes = zip(size, filter.shape, stride, dilation, strict=False)
    before = [along(n, k, s, d, padding)[0] for n, k, s, d in axes]
    result = np.zeros((x.shape[0], *size, filter.shape[3])) + bias
    for i in np.ndindex(x.shape[1:4]):
        for k in itertools.product(*map(range, filter.shape[:3])):
            at = tuple(
                a * s + c * d - b for a, s, c, d, b in zip(i, stride, k, dilation, before, strict=True)
            )
            if all(0 <= a < n for a, n in zip(at, size, strict=True)):
                result[(slice(None), *at)] += x[(slice(None), *i)] @ filter[k].T
    return result


@pytest.mark.parametrize(("size", "filter", "attrs"), CASES)
def test_cell_by_cell(
    size: Sequence[int], filter: Sequence[int], attrs: dict[str, Any], backend: str
) -> None:
    """Sums of at most 27 * 3 products of up to 16."""
    inputs, attrs = inputs_of(size, filter, attrs), {"size": tuple(size), **attrs}
    expected, atol = spread(inputs, size, attrs), 81 * 81 * 16 * EPS / 2
    for given, constants in ((inputs, ()), (inputs, (1, 2)), (inputs[:2], ())):
        (y,) = check("transpose_conv3d", given, attrs, backend=backend, constants=constants, atol=atol)
        np.testing.assert_allclose(y, expected - (inputs[2] if len(given) < 3 else 0), rtol=0, atol=atol)


@pytest.mark.parametrize(("constants", "last"), [((1, 2), "conv2d"), ((), "conv3d")])
def test_with_a_constant_filter_it_convolves_over_height_and_width_alone(
    constants: tuple[int, ...], last: str
) -> None:
    size, filter, _ = CASES[0]
    model = model_of("transpose_conv3d", inputs_of(size, filter, {}), {"size": size}, constants)
    with model.compile("cpu") as compiled:
        found = [p.operation.op for p in compiled.placement]
    assert [op for op in found if op.startswith("conv")][-1] == last


@pytest.mark.parametrize(("size", "filter", "attrs"), CASES)
def test_it_is_the_gradient_of_conv3d(
    size: Sequence[int], filter: Sequence[int], attrs: dict[str, Any]
) -> None:
    """<conv3d(z), x> = <z, transpose_conv3d(x)>, whatever z is."""
    x, weights, _ = (v.astype(np.float64) for v in inputs_of(size, filter, attrs))
    z = random(4, 2, *size, 5).astype(np.float64)
    forward = OPS["conv3d"].reference(z, weights, **attrs)
    back = OPS["transpose_conv3d"].reference(x, weights, size=size, **attrs)
    np.testing.assert_allclose(np.sum(forward * x), np.sum(z * back), rtol=1e-12)


@pytest.mark.parametrize("groups", [2, 3, 6])
@pytest.mark.parametrize(("size", "filter", "attrs"), CASES)
def test_groups(
    size: Sequence[int], filter: Sequence[int], attrs: dict[str, Any], groups: int, backend: str
) -> None:
    """Each group of output channels depends on one group of input channels."""
    x, weights, bias = (
        np.concatenate([v] * 2, axis=-1) if k < 2 else random(5, 4 * groups)
        for k, v in enumerate(inputs_of(size, filter, attrs))
    )
    weights, attrs = weights[..., :4, :], {"size": tuple(size), **attrs}
    atol = 81 * 81 * 16 * EPS / 2
    given, whole = [x, weights, bias], attrs | {"groups": groups}
    found = check("transpose_conv3d", given, whole, backend=backend, atol=atol)
    check("transpose_conv3d", given, whole, backend=backend, constants=(1, 2), atol=atol)
    parts = zip(*(np.split(v, groups, axis=-1) for v in (x, weights, bias)), strict=True)
    alone = [spread(part, size, attrs) for part in parts]
    np.testing.assert_allclose(found[0], np.concatenate(alone, axis=-1), rtol=0, atol=atol)


def test_a_fused_activation(backend: str) -> None:
    inputs = inputs_of((3, 4, 5), (2, 2, 3), {})
    attrs = {"size": (3, 4, 5), "activation": "relu"}
    (y,) = check("transpose_conv3d", inputs, attrs, backend=backend, atol=81 * 81 * 16 * EPS / 2)
    assert y.min() == 0 < y.max()


@pytest.mark.parametrize(
    ("attrs", "message"),
    [
        ({"size": (3, 3, 3)}, "does not come of"),
        ({"size": (4, 4, 4), "stride": (0, 1, 1)}, "at least 1"),
        ({"size": (4, 4, 4), "padding": "full"}, "padding must be"),
        ({"size": (4, 4)}, "size must have 3 entries"),
        ({"size": (4, 4, 4), "groups": 2}, "3 channels cannot be divided into 2 groups"),
    ],
)
def test_wrong_operands_are_refused(attrs: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelError, match=f"transpose_conv3d: .*{message}"):
        model_of("transpose_conv3d", inputs_of((4, 4, 4), (2, 2, 2), {}), attrs)
