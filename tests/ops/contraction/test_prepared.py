"""Convolutions that are made ready for many runs give what their references give, and keep constants only."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpunn.model import Model
from gpunn.ops import OPS
from gpunn.ops.contraction import blocks
from gpunn.types import Array, float32
from tests.ops.harness import random

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
            np.testing.assert_array_equal(found, OPS[op].reference(*operands, **attrs))


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
