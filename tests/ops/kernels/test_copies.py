"""Copies on the GPU: the body that the strides ask for, and its results, which are exact."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from gpunn.types import Array
from tests.ops.harness import check, model_of, random

EXACT: dict[str, Any] = {"atol": 0, "rtol": 0}
DTYPES = ("float32", "float16", "int32", "int64", "complex64", "int8", "uint8", "bool", "int16")


def numbers(dtype: str, *shape: int) -> Array:
    """Return different numbers of a dtype, as far as it has so many."""
    found = np.arange(np.prod(shape)).reshape(shape) % (2**11 if dtype == "float16" else 2**24)
    return found % 3 == 0 if dtype == "bool" else found.astype(dtype)


CASES: dict[str, list[tuple[str, tuple[int, ...], Mapping[str, Any]]]] = {
    "strided_copy": [
        ("transpose", (30, 5, 8), {"perm": (1, 0, 2)}),
        ("transpose", (31, 33), {"perm": (1, 0)}),
        ("strided_slice", (1500,), {"begin": (1,), "end": (1400,), "strides": (1,)}),
        ("strided_slice", (40, 48), {"begin": (39, 0), "end": (None, 48), "strides": (-1, 1)}),
    ],
    "copy_tiles": [
        ("transpose", (32, 36), {"perm": (1, 0)}),
        ("transpose", (2, 12, 5, 20), {"perm": (0, 3, 1, 2)}),
        ("transpose", (4, 3, 2, 5, 12), {"perm": (4, 2, 1, 3, 0)}),
        ("transpose", (4, 3, 2, 2, 3, 2, 8), {"perm": (6, 2, 4, 1, 3, 5, 0)}),
    ],
    "copy_ragged_tiles": [
        ("transpose", (37, 31), {"perm": (1, 0)}),
        ("transpose", (37, 32), {"perm": (1, 0)}),
        ("transpose", (2, 13, 3, 21), {"perm": (0, 3, 2, 1)}),
    ],
    "copy_fours": [
        ("transpose", (36, 31), {"perm": (1, 0)}),
        ("transpose", (512, 3), {"perm": (1, 0)}),
        ("broadcast_to", (9, 8, 1), {"shape": (9, 8, 16)}),
        ("broadcast_to", (9, 1, 1), {"shape": (9, 8, 16)}),
        ("strided_slice", (9, 17, 16), {"begin": (0, 16, 15), "end": (9, 0, None), "strides": (1, -1, -1)}),
        ("strided_slice", (9, 16, 41), {"begin": (0, 0, 1), "end": (9, 16, 41), "strides": (1, 1, 2)}),
    ],
    "copy_words": [
        ("transpose", (3, 512), {"perm": (1, 0)}),
        ("broadcast_to", (30, 8, 1), {"shape": (30, 8, 13)}),
        ("strided_slice", (9, 16, 23), {"begin": (0, 0, 1), "end": (8, 15, 22), "strides": (1, 1, 1)}),
        ("split", (100, 43), {"axis": 1, "sizes": (21, 22)}),
        ("tile", (38, 5), {"multiples": (2, 4)}),
        ("transpose", (98, 2, 58), {"perm": (0, 2, 1)}),
        ("transpose", (3, 5, 8, 11), {"perm": (3, 2, 1, 0)}),
        ("transpose", (3, 2, 3, 2, 3, 11), {"perm": (4, 2, 1, 3, 0, 5)}),
    ],
    "copy_rows": [
        ("tile", (37, 5), {"multiples": (3, 3)}),
        ("split", (99, 42), {"axis": 1, "sizes": (21, 21)}),
        ("broadcast_to", (31, 7, 1), {"shape": (31, 7, 13)}),
        ("strided_slice", (9, 16, 23), {"begin": (0, 0, 1), "end": (9, 15, 22), "strides": (1, 1, 1)}),
        ("transpose", (3, 515), {"perm": (1, 0)}),
    ],
}


@pytest.mark.parametrize(("body", "case"), [(b, c) for b, cases in CASES.items() for c in cases])
def test_strides_decide_on_the_body(gpu: str, body: str, case: tuple[str, Any, Mapping[str, Any]]) -> None:
    op, shape, attrs = case
    x = numbers("float32", *shape)
    with model_of(op, [x], attrs).compile(gpu) as compiled:
        assert {row.kernel.body for row in compiled.plan_rows()} == {body}
    check(op, [x], attrs, backend=gpu, **EXACT)


@pytest.mark.sample(2)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("body", CASES)
def test_every_dtype(gpu: str, body: str, dtype: str) -> None:
    for op, shape, attrs in CASES[body][:3]:
        check(op, [numbers(dtype, *shape)], attrs, backend=gpu, **EXACT)


@pytest.mark.parametrize("shapes", [((40, 33), (40, 30)), ((40, 32), (40, 1)), ((40, 1), (40, 32))])
@pytest.mark.parametrize("dtype", DTYPES)
def test_concatenations_along_the_last_axis(
    gpu: str, shapes: tuple[tuple[int, int], ...], dtype: str
) -> None:
    check("concat", [numbers(dtype, *s) for s in shapes], {"axis": 1}, backend=gpu, **EXACT)


def test_elements_of_a_new_last_axis(gpu: str) -> None:
    for count in (2, 3, 4):
        xs = [random(k, 12, 100) for k in range(count)]
        check("stack", xs, {"axis": 2}, backend=gpu, **EXACT)
        check("unstack", [np.stack(xs, 2)], {"axis": 2}, backend=gpu, **EXACT)


ODD: list[tuple[str, tuple[int, ...], list[Any], Mapping[str, Any]]] = [
    ("pad", (5, 7, 9), [], {"paddings": ((1, 0), (2, 1), (0, 2)), "value": 1}),
    ("mirror_pad", (5, 7, 9), [], {"paddings": ((1, 0), (2, 1), (0, 2)), "mode": "symmetric"}),
    ("roll", (5, 7, 9), [], {"shifts": (2, 0, -4)}),
    ("gather", (6, 7), [np.array([5, 0, 2], np.int32)], {"axis": 0}),
    ("gather_nd", (6, 7, 3), [np.array([[5, 0], [2, 6], [0, 1]], np.int32)], {}),
    ("dynamic_slice", (6, 7), [np.array([1, 2], np.int32)], {"sizes": (3, 5)}),
]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("case", ODD, ids=lambda case: case[0])
def test_rows_that_4_does_not_divide(
    gpu: str, case: tuple[str, tuple[int, ...], list[Any], Mapping[str, Any]], dtype: str
) -> None:
    """Elements of less than a word are stored by fours, the last of which lie in the result's padding."""
    op, shape, inputs, attrs = case
    check(op, [numbers(dtype, *shape), *inputs], attrs, backend=gpu, **EXACT)


def test_many_elements_of_rows_that_4_does_not_divide(gpu: str) -> None:
    x = random(1, 257, 257)
    check("pad", [x], {"paddings": ((1, 0), (0, 2)), "value": 1.5}, backend=gpu, **EXACT)
    hot = [np.arange(-3, 66_000 // 3, dtype=np.int32) % 7, np.float32(2), np.float32(-1)]
    check("one_hot", hot, {"depth": 5}, backend=gpu, **EXACT)
