"""Sums, products and extremes of segments."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpunn.errors import ModelError
from gpunn.ops.indexing import segment
from gpunn.types import Array
from tests.ops.harness import check, check_litert, model_of, random


def ids(*values: Any) -> Array:
    return np.array(values, np.int32)


@pytest.mark.parametrize("line", segment.TABLE, ids=lambda line: line.name)
@pytest.mark.parametrize("dropped", [0, 7, 200])
def test_wide_slices_equal_their_columns(line: segment.Segments, dropped: int) -> None:
    """Slices of a few numbers are joined one by one, others side by side with those of their segment."""
    generator = np.random.default_rng(1)
    where = generator.integers(0, 9, 200, dtype=np.int32)
    where[where == 4] = 5
    where[:dropped] = -1
    x = generator.choice(np.array([-2, -0.5, 0.5, 1, 2], np.float32), (200, 7))  # nothing is rounded
    x[20, 3], x[30, 4], x[where == 8] = np.nan, -np.inf, -0.0
    whole = generator.integers(-(2**31), 2**31, (200, 7), dtype=np.int32)
    reference = model_of(line.name, [x, where], {"segments": 9}).operations[0].definition.reference
    for values in (x, whole):
        for ids in (where, np.sort(where)):
            with np.errstate(invalid="ignore"):
                found = reference(values, ids, segments=9, drops=True)
                columns = [reference(column, ids, segments=9, drops=True) for column in values.T]
            np.testing.assert_array_equal(found, np.stack(columns, axis=1))


@pytest.mark.parametrize("line", segment.TABLE, ids=lambda line: line.name)
def test_by_loops(line: segment.Segments, backend: str) -> None:
    many = np.random.default_rng(0).integers(0, 5, 300, dtype=np.int32)
    for shape, where in (
        ((5, 3), ids(2, 0, 2, 2, 4)),
        ((2, 2, 4), ids([3, 0], [0, 3])),
        ((0, 4), ids()),
        ((300, 2), many),
        ((300, 4), many),
        ((300, 2, 3), np.sort(many)),
    ):
        for x in (random(0, *shape), np.arange(np.prod(shape)).reshape(shape).astype(np.int32) - 3):
            # Sums and products round as often as there are terms, of up to 4; extremes do not.
            rounding = 0 if line.empty is None else 2.0**-24 * where.size
            tolerance: dict[str, Any] = {"atol": 4 * where.size * rounding, "rtol": rounding}
            for constants in ((), (1,)):
                (y,) = check(
                    line.name,
                    [x, where],
                    {"segments": 5},
                    backend=backend,
                    constants=constants,
                    **tolerance,
                )
            rows = x.reshape(where.size, *x.shape[where.ndim :])
            for number in range(5):
                mine = rows[where.reshape(-1) == number]
                if len(mine):
                    expected = line.join.reduce(mine, axis=0, dtype=x.dtype)
                    np.testing.assert_allclose(y[number], expected, **tolerance)


def test_nan_is_an_extreme(backend: str) -> None:
    x = np.array([1, np.nan, 2, 3], np.float32)
    for name in ("segment_max", "segment_min"):
        (y,) = check(name, [x, ids(0, 0, 0, 1)], {"segments": 2}, backend=backend)
        assert np.isnan(y[0]) and y[1] == 3


@pytest.mark.parametrize(("name", "sign"), [("segment_max", -1), ("segment_min", 1)])
def test_extremes_begin_at_the_last_finite_number_or_at_an_infinity(
    name: str, sign: int, backend: str
) -> None:
    data, where = (sign * np.array([np.inf, np.inf, 5, np.inf])).astype(np.float32), ids(0, 0, 1, 1)
    for infinite, none in ((False, np.finfo(np.float32).max), (True, np.inf)):
        (y,) = check(name, [data, where], {"segments": 3, "infinite": infinite}, backend=backend)
        assert y.tolist() == [sign * none, sign * 5, sign * none]


@pytest.mark.parametrize(("name", "sign"), [("segment_max", -1), ("segment_min", 1)])
def test_extremes_of_infinities_agree_with_litert(name: str, sign: int) -> None:
    data, where = (sign * np.array([np.inf, np.inf, 5, np.inf])).astype(np.float32), ids(0, 0, 1, 1)
    count = np.array(3, np.int32)
    check_litert(name, [data, where], {"segments": 3}, f"UNSORTED_{name.upper()}", operands=[count])


def test_empty_segments_and_negative_ids(backend: str) -> None:
    data, where = np.array([[5], [7]], np.int32), ids(-1, 1)
    for name, empty in (
        ("segment_sum", 0),
        ("segment_prod", 1),
        ("segment_max", -(2**31)),
        ("segment_min", 2**31 - 1),
    ):
        attrs = {"segments": 3, "drops": True}
        with model_of(name, [data, where], attrs).compile(backend=backend) as compiled:
            assert compiled(data, where).tolist() == [[empty], [7], [empty]]


@pytest.mark.parametrize("constants", [(), (1,)])
def test_many_segments_and_negative_ids(constants: tuple[int, ...], backend: str) -> None:
    ids = np.random.default_rng(0).integers(-2, 5000, 900).astype(np.int32)
    attrs = {"segments": 5000, "drops": True}
    check("segment_max", [random(0, 900, 3), ids], attrs, backend=backend, constants=constants)


@pytest.mark.parametrize(("where", "drops"), [((0, -1), False), ((3, 0), False), ((3, 0), True)])
def test_ids_out_of_range_are_refused(where: tuple[int, ...], drops: bool, backend: str) -> None:
    data, attrs = random(0, 2, 2), {"segments": 3, "drops": drops}
    wrong = next(i for i in where if i)
    bounds = "at most 2" if drops else r"in 0 \.\.\. 2"
    with (
        model_of("segment_sum", [data, ids(*where)], attrs).compile(backend=backend) as compiled,
        pytest.raises(ModelError, match=rf"segment_sum: ids must be {bounds}, got {wrong}"),
    ):
        compiled(data, ids(*where))


@pytest.mark.parametrize(
    ("inputs", "attrs", "message"),
    [
        ([random(0, 2), ids(0)], {"segments": 1}, "ids must have the shape of data's first dimensions"),
        ([random(0, 2), ids([0, 1])], {"segments": 1}, "ids must have the shape"),
        ([random(0, 2), random(0, 2)], {"segments": 1}, "input 1 must be int32 or int64"),
        ([random(0, 2), ids(0, 1)], {"segments": -1}, "segments must be >= 0, got -1"),
        ([random(0, 2) > 0, ids(0, 1)], {"segments": 2}, "input 0 must be float32"),
    ],
)
def test_errors(inputs: list[Array], attrs: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelError, match=f"segment_sum: {message}"):
        model_of("segment_sum", inputs, attrs)
