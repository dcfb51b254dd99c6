"""Pools against float64 and LiteRT."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpunn.errors import ModelError
from gpunn.ops import OPS
from tests.ops.harness import as_software, check, check_litert, model_of, random

POOLS = {"average_pool2d": "AVERAGE_POOL_2D", "max_pool2d": "MAX_POOL_2D", "l2_pool2d": "L2_POOL_2D"}

ATTRS: list[dict[str, Any]] = [
    {"size": (2, 2), "stride": (2, 2)},
    {"size": (3, 2), "padding": "same"},
    {"size": (3, 3), "padding": "same", "stride": (2, 2), "activation": "relu6"},
    {"size": (2, 4), "padding": ((1, 0), (2, 3)), "stride": (1, 2), "activation": "relu1"},
    {"size": (7, 6), "stride": (1, 1)},
]


@pytest.mark.parametrize("attrs", ATTRS, ids=str)
@pytest.mark.parametrize("op", POOLS)
def test_pool(backend: str, op: str, attrs: dict[str, Any]) -> None:
    for shape in ((1, 7, 6, 8), (2, 9, 8, 5), (0, 7, 6, 4)):
        check(op, [random(1, *shape)], attrs, backend=backend)


STRIPS: list[tuple[dict[str, Any], tuple[str, ...]]] = [
    ({"size": (3, 3), "padding": "same"}, ("pool_strip",)),
    ({"size": (2, 3), "stride": (2, 1), "activation": "relu6"}, ("pool_strip",)),
    ({"size": (3, 1), "padding": ((2, 0), (0, 0))}, ("pool_strip",)),
    ({"size": (5, 9), "padding": ((1, 4), (8, 3)), "activation": "relu1"}, ("pool_strip", "pool_strip")),
    ({"size": (3, 3), "stride": (1, 2), "padding": "same"}, ("pool2d",)),
]


@pytest.mark.parametrize("shape", [(2, 14, 19, 12), (3, 13, 17, 7)], ids=str)
@pytest.mark.parametrize(("attrs", "bodies"), STRIPS, ids=str)
@pytest.mark.parametrize("op", POOLS)
def test_strips_of_results(
    gpu: str,
    op: str,
    attrs: dict[str, Any],
    bodies: tuple[str, ...],
    shape: tuple[int, ...],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Rows and columns of a large window have a maximum one after the other.

    A device that needs many invocations would have strips only of larger results.
    """
    as_software(monkeypatch)
    x = random(1, *shape[:-1], 4 * shape[-1])
    with model_of(op, [x], attrs).compile(gpu) as compiled:
        found = tuple(row.kernel.body for row in compiled.plan_rows())
        assert found == (bodies if op == "max_pool2d" else bodies[:1])
    check(op, [x], attrs, backend=gpu)
    narrow = random(1, shape[0], 5 * shape[1], 5 * shape[2], 3)
    check(op, [narrow], attrs, backend=gpu)
    half = narrow.astype(np.float16)
    check(op, [half], attrs, backend=gpu, rtol=2**-10)  # the result is rounded to float16


@pytest.mark.parametrize("size", [(3, 3), (5, 5)])
def test_strips_keep_nan_and_infinities(gpu: str, size: tuple[int, int]) -> None:
    x = random(1, 1, 21, 22, 12)
    x[0, 5:7, 5, 0], x[0, 11, 9, 1], x[0, :9, 11:20, 2] = np.nan, np.inf, -np.inf
    for op in ("max_pool2d", "average_pool2d"):
        check(op, [x], {"size": size, "padding": "same"}, backend=gpu)


@pytest.mark.parametrize("op", POOLS)
def test_a_pool_over_the_whole_image(backend: str, op: str) -> None:
    check(op, [random(1, 1, 33, 17, 4)], {"size": (33, 17)}, backend=backend)


def test_padding_is_not_counted(backend: str) -> None:
    x = np.full((1, 2, 2, 1), -3, np.float32)
    for op, expected in (("average_pool2d", -3), ("max_pool2d", -3), ("l2_pool2d", 3)):
        (y,) = check(op, [x], {"size": (2, 2), "padding": "same"}, backend=backend)
        assert y.ravel().tolist() == [expected] * 4


def test_the_maximum_keeps_nan_and_infinities(backend: str) -> None:
    x = random(1, 1, 4, 8, 4)
    x[0, 0, 0, 0], x[0, 0, 3, 1], x[0, :2, 4:6, 2] = np.nan, np.inf, -np.inf
    (y,) = check("max_pool2d", [x], {"size": (2, 2), "stride": (2, 2)}, backend=backend)
    assert np.isnan(y[0, 0, 0, 0])
    assert y[0, 0, 1, 1] == np.inf
    assert y[0, 0, 2, 2] == -np.inf


@pytest.mark.parametrize("padding", [0, 1])
@pytest.mark.parametrize("op", POOLS)
def test_agrees_with_litert(op: str, padding: int) -> None:
    attrs = {"size": (3, 2), "stride": (2, 1), "padding": ("same", "valid")[padding], "activation": "relu6"}
    options = {
        "padding": padding,
        "strideH": 2,
        "strideW": 1,
        "filterHeight": 3,
        "filterWidth": 2,
        "fusedActivationFunction": 3,
    }
    check_litert(op, [random(1, 2, 7, 8, 5)], attrs, POOLS[op], options)


@pytest.mark.parametrize(
    ("attrs", "message"),
    [
        ({}, "needs attribute size"),
        ({"size": (5, 1)}, "does not fit an input"),
        ({"size": (2, 2), "padding": ((2, 0), (0, 0))}, "must be smaller than the window"),
        ({"size": (2, 2), "stride": (1, 0)}, "stride must be two numbers of at least 1"),
    ],
)
def test_errors(attrs: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelError, match=f"max_pool2d: .*{message}"):
        model_of("max_pool2d", [random(1, 1, 4, 4, 3)], attrs)


@pytest.mark.parametrize("size", [(1, 1), (2, 2), (3, 1), (1, 4), (3, 3)], ids=str)
@pytest.mark.parametrize("stride", [(1, 1), (2, 3)], ids=str)
def test_highest_numbers_of_windows_cut_out_of_the_image(
    size: tuple[int, int], stride: tuple[int, int]
) -> None:
    x = random(4, 2, 9, 11, 5)
    expected = [
        [x[:, r : r + size[0], c : c + size[1]].max((1, 2)) for c in range(0, 12 - size[1], stride[1])]
        for r in range(0, 10 - size[0], stride[0])
    ]
    found = OPS["max_pool2d"].reference(x, size=size, stride=stride)
    np.testing.assert_array_equal(found, np.array(expected).transpose(2, 0, 1, 3))
    assert not np.shares_memory(found, x)


@pytest.mark.parametrize("size", [(3, 3), (2, 5), (1, 2), (4, 1)], ids=str)
@pytest.mark.parametrize("stride", [(1, 1), (2, 3), (5, 1)], ids=str)
def test_many_rows_of_windows(size: tuple[int, int], stride: tuple[int, int]) -> None:
    """Images that are combined some rows at a time."""
    x = random(4, 2, 70, 61, 33).astype(np.float64)
    cells = np.lib.stride_tricks.sliding_window_view(x, size, (1, 2))[:, :: stride[0], :: stride[1]]
    expected = {"max_pool2d": cells.max((4, 5)), "average_pool2d": cells.mean((4, 5))}
    for op, wanted in expected.items():
        found = OPS[op].reference(x, size=size, stride=stride)
        np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-14)
