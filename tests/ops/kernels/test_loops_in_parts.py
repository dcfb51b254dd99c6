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
REPEATED = np.random.default_rng(7).integers(0, 6, (2, 400, 3)).astype(np.float32)
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
    *(
        (op, [x], {"axis": axis, "dtype": dtype}, 3)
        for op, x, axis, dtype in (
            ("arg_max", random(1, 5, 300), 1, "int32"),
            ("arg_max", REPEATED, 1, "int64"),
            ("arg_min", REPEATED, 1, "int32"),
            ("arg_min", np.where(REPEATED == 2, np.float32(np.nan), REPEATED), 1, "int32"),
            ("arg_max", WHOLE, 1, "int64"),
            ("arg_max", WHOLE % 2 == 0, 1, "int32"),
        )
    ),
    *(("reverse", [random(1, 4, 5, 3), np.resize(named, 200)], {}, 50) for named in (ints([-2, 0]), [1])),
    ("rnn", [random(k, *n) for k, n in enumerate(((2, 9), (5, 9), (5, 5), (5,), (2, 5)))], {}, 4),
    ("rnn", [random(k, *n) for k, n in enumerate(((2, 400), (3, 400), (3, 3), (3,), (2, 3)))], {}, 2),
]


@pytest.mark.sample(2)
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
    whole = check(op, inputs, attrs, backend=gpu, **close)
    limit_device(monkeypatch, max_loop_iterations=most)
    with model_of(op, inputs, attrs).compile(gpu) as compiled:
        assert len(compiled.plan_rows()) > 2
    for parts, together in zip(check(op, inputs, attrs, backend=gpu, **close), whole, strict=True):
        np.testing.assert_array_equal(parts, together)
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


def test_more_channels_than_a_grid_has_along_one_dimension(gpu: str) -> None:
    check("fully_connected", [random(1, 2, 1), random(2, 64 * 65_535 + 70, 1)], {}, backend=gpu)


def test_a_box_around_many_points(gpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sides of the box come from points in different parts; only float32 has this op."""
    points = random(1, 300, 3)
    attrs = {"scale": (1.2, 0.7), "origin": (3.0, 4.0), "rotation": 0.3, "half_turn": True}
    # As of _matrix_error(): points are below 4, and rows below 2 * 1.2 + 2 * 0.7 + 1 + 2 * (3.6 + 2.8).
    close = 32 * EPS * 4 * 18
    (whole,) = check("rotated_crop_matrix", [points], attrs, backend=gpu, atol=close)
    limit_device(monkeypatch, max_loop_iterations=50)
    with model_of("rotated_crop_matrix", [points], attrs).compile(gpu) as compiled:
        assert [row.kernel.body for row in compiled.plan_rows()].count("rotated_crop_box") > 4
    (parts,) = check("rotated_crop_matrix", [points], attrs, backend=gpu, atol=close)
    np.testing.assert_array_equal(parts, whole)


def test_windows_that_lavapipe_does_not_look_through_at_once(gpu: str) -> None:
    x = random(1, 1, 260, 260, 1)
    (y,) = check("arg_max_pool2d", [x], {"size": (260, 260)}, backend=gpu)
    assert y.item() == x.argmax()


def test_rows_that_lavapipe_does_not_look_through_at_once(gpu: str) -> None:
    """64 invocations look through 4.5 million elements; the greatest ones are the last in reach of each."""
    x = np.zeros(4_500_000, np.int8)
    x[[4_499_001, 4_499_000, 17]] = 5, 5, 4
    (y,) = check("arg_max", [x], {"axis": 0}, backend=gpu)
    assert y.item() == 4_499_000


def test_a_named_axis_that_lavapipe_does_not_sum_at_once(gpu: str) -> None:
    x = np.ones((2, 65_600), np.int32)
    (y,) = check("cumsum", [x, ints([1])], {}, backend=gpu)
    assert (y[:, -1] == 65_600).all()
    random_rows = random(1, 2, 65_600)
    check("cumsum", [random_rows, ints([-1])], {}, backend=gpu, atol=65_600 * EPS * 65_600 * 4)
