"""Ops whose values decide on the size of results: one program for all values that give one size."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpunn.errors import GpunnError, ModelError, UnsupportedError
from gpunn.model import Model
from gpunn.strings import as_strings
from gpunn.types import Array, DType, TensorType, float32
from tests.ops.harness import model_of, random, type_of


def ints(*values: Any, dtype: Any = np.int32) -> Array:
    return np.array(values, dtype)


def evaluated(op: str, inputs: list[Array], backend: str, **attrs: Any) -> tuple[Array, ...]:
    """Return the results of a model of one op; assert that constants and inputs give the same."""
    results = []
    for constants in ((), range(len(inputs))):
        model = model_of(op, inputs, attrs, constants)
        assert bool(model.pending) == (not constants)
        if constants:  # a model must have an input
            model.input("unread", float32())
            assert all(o.open is None for o in model.outputs)
        with model.compile(backend) as compiled:
            found = compiled(*([np.float32(0)] if constants else inputs))
        results.append(found if isinstance(found, tuple) else (found,))
    for one, other in zip(*results, strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)
    return tuple(results[0])


@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.int8, np.bool_])
@pytest.mark.parametrize("shape", [(7,), (3, 4), (2, 3, 2), (0, 3), ()])
def test_where(shape: tuple[int, ...], dtype: Any, backend: str) -> None:
    x = (random(0, *shape) * (random(1, *shape) > 0)).astype(dtype)
    (places,) = evaluated("where", [x], backend)
    assert places.dtype == np.int64 and places.shape[1:] == (x.ndim,)
    assert places.tolist() == [list(at) for at in np.ndindex(shape) if x[at] != 0]


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_unique(dtype: str, backend: str) -> None:
    x = ints(3, 1, 3, -2, 1, 3)
    values, places = evaluated("unique", [x], backend, dtype=dtype)
    assert values.tolist() == [3, 1, -2] and values.dtype == np.int32
    assert places.tolist() == [0, 1, 0, 2, 1, 0] and places.dtype == dtype
    nothing = np.array([np.nan, 1, np.nan], np.float32)
    values, places = evaluated("unique", [nothing], backend)
    assert places.tolist() == [0, 1, 2], "two NaNs are different elements"


@pytest.mark.parametrize(
    ("start", "limit", "delta", "dtype"),
    [
        (2, 11, 4, np.int32),
        (5, -5, -3, np.int64),
        (1, 1, 1, np.int32),
        (1, -1, -0.5, np.float32),
        (0, 1, 0.1, np.float32),
    ],
)
def test_range(start: float, limit: float, delta: float, dtype: Any, backend: str) -> None:
    numbers = [np.array(v, dtype) for v in (start, limit, delta)]
    (found,) = evaluated("range", numbers, backend)
    assert found.dtype == dtype
    if dtype != np.float32:
        assert found.tolist() == list(range(int(start), int(limit), int(delta)))
        return
    terms, total = [], numbers[0]
    while (total < numbers[1]) == (delta > 0) and total != numbers[1]:
        terms.append(total)
        total = np.float32(total + numbers[2])
    np.testing.assert_array_equal(found, terms)


def test_broadcast_args(backend: str) -> None:
    with model_of("broadcast_args", [ints(2, 1, 4), ints(3, 1)], {}).compile(backend) as compiled:
        assert compiled(ints(2, 1, 4), ints(3, 1)).tolist() == [2, 3, 4]
        with pytest.raises(ModelError, match=r"\[2, 5, 4\] and \[3, 1\] cannot be broadcast"):
            compiled(ints(2, 5, 4), ints(3, 1))


def test_skip_gram(backend: str) -> None:
    attrs = {"ngram_size": 2, "max_skip_size": 1, "include_all_ngrams": False}
    (found,) = evaluated("skip_gram", [as_strings(["a b c"], "text")], backend, **attrs)
    assert found.tolist() == [b"a b", b"a c", b"b c"]


@pytest.mark.parametrize(
    ("op", "inputs", "attrs", "message"),
    [
        ("unique", [ints([1, 2])], {}, "takes a list of numbers"),
        ("unique", [ints(1)], {"dtype": "int16"}, "dtype must be int32 or int64"),
        ("where", [as_strings(["a"], "text")], {}, "takes no strings"),
        (
            "range",
            [ints(1), ints(3), np.float32(1)],
            {},
            "start, limit and delta are int32, int32 and float32",
        ),
        ("range", [ints(0, 1), ints(5), ints(1)], {}, "the start should be one number, got 2"),
        ("broadcast_args", [ints(1), ints(1, dtype=np.int64)], {}, "the shapes are"),
        ("broadcast_args", [ints([1]), ints(1)], {}, "the shapes are"),
        (
            "skip_gram",
            [ints(1)],
            {"ngram_size": 1, "max_skip_size": 0, "include_all_ngrams": True},
            "takes a string",
        ),
    ],
)
def test_wrong_types(op: str, inputs: list[Array], attrs: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelError, match=f"{op}: .*{message}"):
        model_of(op, inputs, attrs)


@pytest.mark.parametrize(
    ("numbers", "error", "message"),
    [
        ((0, 5, 0), ModelError, "in steps of 0"),
        ((0, 5, -1), ModelError, "do not lead from 0 to 5"),
        ((0, 2**30, 1), UnsupportedError, "at most 4194304 are supported"),
    ],
)
def test_wrong_ranges_are_refused(
    numbers: tuple[Any, ...], error: type[GpunnError], message: str, backend: str
) -> None:
    inputs = [np.asarray(v, np.int32) for v in numbers]
    with pytest.raises(error, match=f"range: .*{message}"):
        model_of("range", inputs, {}, range(3))
    with (
        model_of("range", inputs, {}).compile(backend) as compiled,
        pytest.raises(error, match=f"range: .*{message}"),
    ):
        compiled(*inputs)


def test_one_program_for_an_equal_number_of_places(backend: str) -> None:
    """A model that gathers the positive elements of x and adds their sums."""
    model = Model()
    x = model.input("x", float32(3, 4))
    (large,) = model.add("greater", [x, model.constant("least", np.float32(0))])
    (places,) = model.add("where", [large])
    (found,) = model.add("gather_nd", [x, places])
    (sums,) = model.add("cumsum", [found], {"axis": 0})
    model.output(*model.add("add", [sums, found]))
    with model.compile(backend) as compiled:
        programs = []
        for seed in range(20):
            x = np.zeros(12, np.float32)
            x[np.random.default_rng(seed).permutation(12)[:5]] = seed + 1
            found = x[x > 0]
            np.testing.assert_array_equal(compiled(x.reshape(3, 4)), np.cumsum(found) + found)
            programs.append(compiled.stats.programs)
        assert programs[0] == programs[-1] == 2
    assert type_of(x).dtype is DType.FLOAT32 and TensorType(DType.INT64, (1, 2)) == places.type
