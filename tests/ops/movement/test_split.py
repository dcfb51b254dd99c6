"""split, unstack and stack: results are exact."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpunn.errors import ModelError
from gpunn.model import Model
from gpunn.types import Array, DType, float32
from tests.ops.harness import check, check_litert, model_of, random
from tests.ops.integer_checks import check_integer
from tests.ops.quantized import quantized, stored

EXACT: dict[str, Any] = {"atol": 0, "rtol": 0}
DTYPES = (np.int32, np.uint8, np.int8, np.bool_)


def ints(*values: Any) -> Array:
    return np.array(values, np.int32)


@pytest.mark.parametrize(
    ("shape", "axis", "sizes"),
    [
        ((7,), 0, (3, 4)),
        ((2, 8, 3), 1, (2, 2, 4)),
        ((2, 3, 16), -1, (4, 8, 4)),
        ((2, 3, 16), 2, (3, 0, 13)),
        ((6, 4), 0, (6,)),
        ((6, 0), 0, (2, 4)),
    ],
)
def test_split(shape: tuple[int, ...], axis: int, sizes: tuple[int, ...], backend: str) -> None:
    x = random(0, *shape)
    pieces = check("split", [x], {"axis": axis, "sizes": sizes}, backend=backend, **EXACT)
    np.testing.assert_array_equal(np.concatenate(pieces, axis), x)
    assert [p.shape[axis] for p in pieces] == list(sizes)


@pytest.mark.parametrize("shape", [(3,), (2, 5, 4), (1, 2, 3, 8), (2, 0, 3)])
def test_unstack_and_stack(shape: tuple[int, ...], backend: str) -> None:
    for axis in range(-len(shape), len(shape)):
        if not shape[axis]:
            continue
        x = random(0, *shape)
        pieces = check("unstack", [x], {"axis": axis}, backend=backend, **EXACT)
        assert all((p == x.take(k, axis)).all() for k, p in enumerate(pieces))
        (y,) = check("stack", list(pieces), {"axis": axis}, backend=backend, **EXACT)
        np.testing.assert_array_equal(y, x)


def test_stack_of_one(backend: str) -> None:
    for axis in (0, 1, 2, -1):
        check("stack", [random(0, 3, 4)], {"axis": axis}, backend=backend, **EXACT)


@pytest.mark.parametrize("dtype", DTYPES)
def test_other_dtypes(dtype: type, backend: str) -> None:
    x = np.random.default_rng(0).integers(0, 100, (3, 5, 7)).astype(dtype)
    check("split", [x], {"axis": 2, "sizes": (2, 5)}, backend=backend)
    pieces = check("unstack", [x], {"axis": 1}, backend=backend)
    check("stack", list(pieces), {"axis": 2}, backend=backend)


def test_quantised_pieces_keep_their_quantisation(backend: str) -> None:
    type = quantized(DType.UINT8, (4, 6), 0.5, 3)
    check_integer("split", [stored(0, type)], [type], {"axis": 1, "sizes": (1, 5)}, backend=backend)
    piece = quantized(DType.UINT8, (6,), 0.5, 3)
    pieces = check_integer("unstack", [stored(0, type)], [type], {"axis": 0}, backend=backend)
    check_integer("stack", pieces, [piece] * 4, {"axis": 1}, backend=backend)


def test_agrees_with_litert() -> None:
    x = random(0, 2, 6, 4)
    check_litert("unstack", [x], {"axis": 1}, "UNPACK", {"num": 6, "axis": 1})
    check_litert("unstack", [x], {"axis": -1}, "UNPACK", {"num": 4, "axis": -1})
    for axis in (0, 2, -1):
        check_litert("stack", [x, x + 1], {"axis": axis}, "PACK", {"values_count": 2, "axis": axis})
    sizes = {"axis": 1, "sizes": (1, 3, 2)}
    check_litert("split", [x], sizes, "SPLIT_V", {"num_splits": 3}, operands=[ints(1, 3, 2), ints(1)])


@pytest.mark.parametrize(
    ("op", "attrs", "message"),
    [
        ("split", {"axis": 2, "sizes": (2,)}, "axis 2 is out of range for rank 2"),
        ("split", {"axis": 0, "sizes": (1, 2)}, r"sizes must be >= 0 and add up to 2, got \[1, 2\]"),
        ("split", {"axis": 0, "sizes": (-1, 3)}, r"sizes must be >= 0 and add up to 2, got \[-1, 3\]"),
        ("split", {"axis": 0, "sizes": ()}, "sizes must be >= 0"),
        ("unstack", {"axis": -3}, "axis -3 is out of range"),
        ("unstack", {"axis": 1}, r"axis 1 must not be empty, got shape \[2, 0\]"),
        ("stack", {"axis": 3}, "axis 3 is out of range for rank 3"),
    ],
)
def test_errors(op: str, attrs: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelError, match=f"{op}: {message}"):
        model_of(op, [random(0, 2, 0 if op == "unstack" else 3)], attrs)


def test_stack_of_different_shapes() -> None:
    with pytest.raises(ModelError, match=r"stack: inputs must have one type .* float32\[3\] \(input 1\)"):
        model_of("stack", [random(0, 2), random(0, 3)], {"axis": 0})


def test_pieces_without_readers(backend: str) -> None:
    model = Model("part")
    x = model.input("x", float32(4, 6))
    _, second, _ = model.add("split", [x], {"axis": 1, "sizes": (1, 3, 2)})
    pieces = model.add("unstack", [second], {"axis": 1})
    model.output(*model.add("stack", [pieces[2], pieces[2], pieces[0]], {"axis": 0}))
    values = random(0, 4, 6)
    with model.compile(backend=backend) as compilation:
        np.testing.assert_array_equal(compilation(values), values[:, [3, 3, 1]].T)
