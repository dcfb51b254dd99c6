"""Loops that a device does not take at once: several dispatches hand on their state, and keep the bits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from gpunn.errors import ModelError
from gpunn.model import Model
from gpunn.types import Array, DType, TensorType
from tests.ops.harness import EPS, check, limit_device, model_of, random

NUMBERS = {"bias": 0.5, "alpha": 0.3, "beta": 0.75}
WHOLE = np.random.default_rng(0).integers(-(2**40), 2**40, (4, 7, 3))


def ints(values: Sequence[Any]) -> Array:
    return np.array(values, np.int32)


def looked_up(count: int) -> list[Array]:
    """Return ids, places in rows of a sparse tensor [5, 40], weights, and a table of 6 rows."""
    rng = np.random.default_rng(1)
    places = np.stack([rng.integers(0, 4, count), np.arange(count)], axis=1)
    return [ints(rng.integers(0, 6, count)), ints(places), random(2, count), random(3, 6, 4)]


def positions(*shape: int) -> Array:
    """Return random positions in windows of 12 cells."""
    return np.random.default_rng(4).integers(0, 12, shape).astype(np.int32)


# Op, operands, attributes, the iterations that the device allows.
CASES: list[tuple[str, list[Array], Mapping[str, Any], int]] = [
    *(("cumsum", [random(1, 4, 7, 3), ints(axis)], {}, 3) for axis in (0, 1, -1)),
    ("cumsum", [random(1, 4, 7, 3), ints(1)], {"reverse": True, "exclusive": True}, 2),
    ("cumsum", [WHOLE, ints(1)], {"reverse": True}, 3),
    ("arg_max_pool2d", [random(1, 2, 6, 7, 3)], {"size": (3, 4), "padding": "same"}, 9),
    ("arg_max_pool2d", [random(1, 1, 6, 7, 3)], {"size": (5, 4), "stride": (1, 2), "padding": "same"}, 7),
    ("arg_max_pool2d", [np.full((1, 4, 4, 1), np.nan, np.float32)], {"size": (3, 3), "padding": "same"}, 7),
    *(
        ("embedding_lookup_sparse", looked_up(40), {"shape": (5, 40), "combiner": combiner}, 104)
        for combiner in ("sum", "mean", "sqrtn")
    ),
    *(
        ("spread_pool2d", [random(1, 1, 4, 5, n), *more], {"spatial": (7, 7), "size": (4, 3)}, most)
        for n, most in ((3, 9), (4, 7))
        for more in ([], [positions(1, 4, 5, n)])
    ),
    ("max_unpool2d", [random(1, 1, 4, 5, 3), positions(1, 4, 5, 3)], {"size": (4, 3), "stride": (1, 1)}, 7),
    ("local_response_normalization", [random(1, 2, 9)], {"radius": 3, **NUMBERS}, 4),
    ("local_response_normalization", [random(1, 5, 8)], {"radius": 9, "axis": 0, **NUMBERS}, 2),
]


@pytest.mark.parametrize(("op", "inputs", "attrs", "most"), CASES, ids=[case[0] for case in CASES])
def test_bits_stay(
    op: str,
    inputs: list[Array],
    attrs: Mapping[str, Any],
    most: int,
    gpu: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    close = {"atol": 1e-5, "rtol": 1e-5}
    (whole,) = check(op, inputs, attrs, backend=gpu, **close)
    limit_device(monkeypatch, max_loop_iterations=most)
    with model_of(op, inputs, attrs).compile(gpu) as compiled:
        assert len(compiled.plan_rows()) > 2
    (parts,) = check(op, inputs, attrs, backend=gpu, **close)
    np.testing.assert_array_equal(parts, whole)
    if inputs[0].dtype == np.float32:
        halves = [x.astype(np.float16) if x.dtype == np.float32 else x for x in inputs]
        check(op, halves, attrs, backend=gpu, atol=1e-5, rtol=2**-10)


def test_values_are_checked_in_parts(gpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A workgroup of 256 checks values; the first wrong one is named, in whichever part it is."""
    limit_device(monkeypatch, max_loop_iterations=2)
    model = Model("picking")
    (chosen,) = model.add(
        "add", [model.input("x", TensorType(DType.INT32, (1300,))), model.constant("one", ints(1))]
    )
    model.output(*model.add("gather", [model.constant("table", random(0, 5)), chosen]))
    with model.compile(gpu) as compiled:
        assert [row.kernel.body for row in compiled.plan_rows()].count("check_ranges") == 3
        good = np.arange(1300, dtype=np.int32) % 5 - 1
        np.testing.assert_array_equal(compiled(good), random(0, 5)[good + 1])
        for places in ([1299], [700, 1100], [3, 600, 513]):
            bad = good.copy()
            bad[places] = 70 + np.array(places)
            with pytest.raises(ModelError, match=f"got {71 + min(places)}"):
                compiled(bad)


def test_more_rows_than_a_grid_has_along_one_dimension(backend: str) -> None:
    x, filter = random(1, 66_000, 2), random(2, 3, 2)
    check("fully_connected", [x, filter], {}, backend=backend)


def test_windows_that_lavapipe_does_not_look_through_at_once(gpu: str) -> None:
    x = random(1, 1, 260, 260, 1)
    (y,) = check("arg_max_pool2d", [x], {"size": (260, 260)}, backend=gpu)
    assert y.item() == x.argmax()


def test_a_named_axis_that_lavapipe_does_not_sum_at_once(gpu: str) -> None:
    x = np.ones((2, 65_600), np.int32)
    (y,) = check("cumsum", [x, ints([1])], {}, backend=gpu)
    assert (y[:, -1] == 65_600).all()
    random_rows = random(1, 2, 65_600)
    check("cumsum", [random_rows, ints([-1])], {}, backend=gpu, atol=65_600 * EPS * 65_600 * 4)
