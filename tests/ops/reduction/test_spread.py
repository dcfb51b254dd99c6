"""spread_pool2d: the transpose of a pool."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpunn.errors import ModelError
from tests.ops.harness import check, model_of, random

CASES: list[tuple[tuple[int, ...], dict[str, Any]]] = [
    ((2, 5, 6, 4), {"spatial": (5, 6), "size": (3, 3), "padding": "same"}),
    ((1, 2, 2, 3), {"spatial": (5, 4), "size": (2, 2), "stride": (2, 2)}),
    ((1, 2, 2, 1), {"spatial": (7, 5), "size": (2, 2), "stride": (3, 3), "padding": ((0, 0), (1, 0))}),
    ((0, 2, 2, 4), {"spatial": (3, 3), "size": (2, 2)}),
]


@pytest.mark.parametrize(("shape", "attrs"), CASES)
@pytest.mark.parametrize("chosen", [False, True])
def test_spread(shape: tuple[int, ...], attrs: dict[str, Any], chosen: bool, backend: str) -> None:
    cells = int(np.prod(attrs["size"]))
    positions = np.random.default_rng(2).integers(-1, cells + 1, shape).astype(np.int32)
    check("spread_pool2d", [random(1, *shape), positions if chosen else None], attrs, backend=backend)


def test_overlapping_windows_by_hand(backend: str) -> None:
    """Windows of 2 over 3 pixels with the values 1 and 10; the second chooses its first pixel."""
    x, attrs = np.float32([1, 10]).reshape(1, 1, 2, 1), {"spatial": (1, 3), "size": (1, 2)}
    (both,) = check("spread_pool2d", [x], attrs, backend=backend)
    (one,) = check("spread_pool2d", [x, np.int32([1, 0]).reshape(x.shape)], attrs, backend=backend)
    assert both.reshape(-1).tolist() == [1, 11, 10]
    assert one.reshape(-1).tolist() == [0, 11, 0]


def test_wrong_calls() -> None:
    x = random(1, 1, 2, 2, 1)
    for inputs, spatial, reason in (
        ([x], (5, 5), "windows over"),
        ([x, np.zeros((1, 2, 2, 2), np.int32)], (3, 3), "positions must have shape"),
    ):
        with pytest.raises(ModelError, match=reason):
            model_of("spread_pool2d", inputs, {"spatial": spatial, "size": (2, 2)})
