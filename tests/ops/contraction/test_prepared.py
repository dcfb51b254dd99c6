"""Convolutions that are made ready for many runs give what their references give, and keep constants only."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpunn.model import Model
from gpunn.ops import OPS
from gpunn.ops.contraction import blocks, pieces
from gpunn.types import Array, float32
from tests.ops.harness import model_of, random

CASES: list[tuple[str, tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
    ("conv2d", (2, 9, 11, 8), (12, 3, 3, 8), {"padding": "same"}),
    ("conv2d", (1, 10, 9, 3), (8, 3, 3, 3), {"stride": (2, 1), "dilation": (2, 1)}),
    ("conv2d", (1, 6, 5, 4), (6, 1, 1, 4), {}),
    ("conv2d", (2, 7, 6, 4), (6, 1, 1, 4), {"stride": (2, 3), "padding": "same"}),
    ("conv2d", (2, 8, 9, 6), (8, 3, 2, 3), {"padding": ((1, 0), (2, 3))}),
    ("conv2d", (3, 6, 5, 4), (6, 1, 1, 2), {}),
    ("conv2d", (40, 8, 8, 3), (4, 3, 3, 3), {"stride": (2, 2)}),
    ("conv2d", (1, 6, 5, 2), (3, 2, 2, 2), {"padding": ((4, 5), (0, 6)), "stride": (3, 2)}),
    ("depthwise_conv2d", (2, 7, 113, 32), (1, 3, 3, 32), {"padding": "same"}),
    ("depthwise_conv2d", (1, 6, 7, 2000), (1, 3, 2, 2000), {}),
    ("depthwise_conv2d", (1, 9, 8, 5), (1, 3, 3, 10), {"stride": (2, 2), "padding": "same"}),
    ("depthwise_conv2d", (1, 9, 8, 5), (1, 2, 3, 5), {"dilation": (2, 3), "padding": ((0, 1), (3, 2))}),
    ("depthwise_conv2d", (5, 8, 8, 7), (1, 3, 3, 7), {"stride": (2, 2)}),
    ("depthwise_conv2d", (1, 5, 1, 3), (1, 3, 1, 3), {}),
    ("depthwise_conv2d", (2, 7, 9, 113), (1, 3, 3, 113), {"stride": (2, 2), "padding": "same"}),
    ("depthwise_conv2d", (2, 9, 11, 6), (1, 2, 3, 6), {"stride": (1, 3), "dilation": (3, 2)}),
    ("depthwise_conv2d", (1, 5, 160, 31), (1, 3, 2, 31), {"stride": (3, 2), "padding": ((1, 0), (3, 2))}),
    ("depthwise_conv2d", (2, 7, 6, 145), (1, 3, 3, 145), {"stride": (2, 2), "padding": "same"}),
    ("depthwise_conv2d", (1, 4, 3, 5), (1, 2, 3, 5), {"stride": (1, 4), "padding": ((0, 1), (9, 8))}),
    ("depthwise_conv2d", (1, 4, 300, 32), (1, 3, 3, 32), {"padding": "same"}),
    ("depthwise_conv2d", (1, 5, 300, 61), (1, 3, 3, 61), {"stride": (2, 2), "padding": "same"}),
    ("conv2d", (2, 31, 29, 3), (5, 3, 4, 3), {"padding": "same"}),
    ("conv2d", (1, 5, 13, 128), (128, 1, 1, 128), {}),
]


def sums(op: str, x: Array, filter: Array, bias: Array, attrs: dict[str, Any]) -> Array:
    """Return a convolution in float64, cell by cell of a padded image, written out for one pixel each."""
    sy, sx = attrs.get("stride", (1, 1))
    dy, dx = attrs.get("dilation", (1, 1))
    kh, kw = filter.shape[1:3]
    padding = attrs.get("padding", "valid")
    reach = ((kh - 1) * dy + 1, (kw - 1) * dx + 1)
    if padding == "same":
        totals = [
            max(0, (-(-n // s) - 1) * s + r - n)
            for n, s, r in zip(x.shape[1:3], (sy, sx), reach, strict=True)
        ]
        padding = tuple((t // 2, t - t // 2) for t in totals)
    pads = ((0, 0), (0, 0)) if padding == "valid" else padding
    padded = np.pad(x.astype(np.float64), [(0, 0), *pads, (0, 0)])
    rows = range(0, padded.shape[1] - reach[0] + 1, sy)
    columns = range(0, padded.shape[2] - reach[1] + 1, sx)
    pixels = [[padded[:, y : y + reach[0] : dy, c : c + reach[1] : dx] for c in columns] for y in rows]
    wide = np.array(pixels).transpose(2, 0, 1, 3, 4, 5)
    if op == "depthwise_conv2d":
        wide = np.repeat(wide, filter.shape[3] // x.shape[3], axis=5)
        return np.asarray((wide * filter[0].astype(np.float64)).sum((3, 4)) + bias)
    groups = x.shape[3] // filter.shape[3]
    parts = zip(np.split(wide, groups, axis=5), np.split(filter.astype(np.float64), groups), strict=True)
    return np.concatenate([np.tensordot(a, b, ((3, 4, 5), (1, 2, 3))) for a, b in parts], axis=3) + bias


@pytest.mark.parametrize("block", [None, 1, 40])
@pytest.mark.parametrize(("op", "shape", "filter", "attrs"), CASES, ids=str)
def test_a_prepared_call_computes_what_is_written_out(
    op: str,
    shape: tuple[int, ...],
    filter: tuple[int, ...],
    attrs: dict[str, Any],
    block: int | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if block is not None:  # pixels at a time: single rows of the result, or some of them
        monkeypatch.setattr(blocks, "LEAST_ROWS", block)
        monkeypatch.setattr(blocks, "BLOCK", 1)
        monkeypatch.setattr(pieces, "SMALL_PRODUCT", 0)
    weights, bias = random(1, *filter), random(2, filter[3] if op == "depthwise_conv2d" else filter[0])
    model = Model(op)
    x = model.input("x", float32(*shape))
    model.output(*model.add(op, [x, model.constant("w", weights), model.constant("b", bias)], attrs))
    compute = model.operations[0].prepared()
    terms = int(np.prod(filter[1:3])) * (1 if op == "depthwise_conv2d" else filter[3]) + 1
    for seed in (3, 4):
        value = random(seed, *shape)
        expected = sums(op, value, weights, bias, attrs)
        bound = terms * np.finfo(np.float32).eps * sums(op, *map(np.abs, (value, weights, bias)), attrs)
        for dtype, times in ((np.float32, 1.0), (np.float64, 1e-6)):
            operands = [v.astype(dtype) for v in (value, weights, bias)]
            (found,) = compute(operands)
            assert found.dtype == dtype
            assert (np.abs(found - expected) <= times * bound).all()
            reference = OPS[op].reference(*operands, **attrs)
            if op == "depthwise_conv2d":  # others may add in another order, by the size of a product
                np.testing.assert_array_equal(found, reference)
            assert (np.abs(found - reference) <= 2 * times * bound).all()


def test_other_filters_are_not_taken_for_the_constant() -> None:
    weights = random(1, 4, 1, 1, 3)
    model = Model("one")
    x = model.input("x", float32(1, 5, 5, 3))
    model.output(*model.add("conv2d", [x, model.constant("w", weights)]))
    compute = model.operations[0].prepared()
    value = random(0, 1, 5, 5, 3)
    (first,) = compute([value, weights])
    np.testing.assert_array_equal(compute([value, weights])[0], first)
    np.testing.assert_array_equal(compute([value, weights * 2])[0], first * 2)


@pytest.mark.parametrize(("pixels", "channels"), [(1, 5), (7, 1), (3, 9000), (5000, 3), (8192, 1), (700, 64)])
def test_a_bias_is_added_to_every_pixel(pixels: int, channels: int) -> None:
    sums, bias = random(1, pixels, channels), random(2, channels)
    found = sums.copy()
    pieces.bias_adder(bias, pixels)(found)
    np.testing.assert_array_equal(found, sums + bias)


def test_small_products_have_as_many_rows_as_blas_takes_without_packing() -> None:
    assert pieces.product_rows(12544, 16, 96) * 16 * 96 <= pieces.SMALL_PRODUCT
    assert pieces.product_rows(100, 16, 96) == 100
    assert pieces.product_rows(49, 960, 320) == 49  # few rows of it would be small
    assert pieces.product_rows(0, 3, 4) == 0


def test_operations_with_the_same_padding_share_its_memory() -> None:
    """A chain of three, with padding of one kind and of another one, run by run."""
    model = Model("chain")
    x = model.input("x", float32(1, 9, 8, 4))
    filters = [random(k, 1, 3, 3, 4) for k in range(3)]
    attrs: list[dict[str, Any]] = [{"padding": "same"}, {"padding": ((2, 0), (0, 2))}, {"padding": "same"}]
    y = x
    for k, (filter, attr) in enumerate(zip(filters, attrs, strict=True)):
        (y,) = model.add("depthwise_conv2d", [y, model.constant(f"w{k}", filter)], attr)
    model.output(y)
    compiled = model.compile("cpu")
    for seed in (5, 6):
        expected = value = random(seed, 1, 9, 8, 4)
        for filter, attr in zip(filters, attrs, strict=True):
            expected = OPS["depthwise_conv2d"].reference(expected, filter, **attr)
        np.testing.assert_array_equal(compiled(value), expected)


@pytest.mark.parametrize("op", ["conv2d", "depthwise_conv2d"])
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("perm", [(0, 2, 3, 1), (3, 2, 1, 0)])
def test_images_may_be_transposed_views(perm: tuple[int, ...], op: str, stride: int) -> None:
    filter = random(1, *((4, 3, 3, 8) if op == "conv2d" else (1, 3, 3, 8)))
    image = random(0, 1, 20, 21, 8)
    view = np.ascontiguousarray(image.transpose(np.argsort(perm))).transpose(perm)
    attrs = {"stride": (stride, stride), "padding": "same"}
    operation = model_of(op, [image, filter], attrs, (1,)).operations[0]
    (found,), (expected,) = (operation.evaluate([x, filter]) for x in (view, image))
    np.testing.assert_array_equal(found, expected)
    by_reference = operation.definition.reference(view, filter, **attrs)
    np.testing.assert_array_equal(by_reference, operation.definition.reference(image, filter, **attrs))
