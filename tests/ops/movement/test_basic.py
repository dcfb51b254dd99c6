"""Ops that move elements: results are exact."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from gpunn.errors import ModelError
from gpunn.model import Model
from gpunn.types import Array, float32
from tests.ops.harness import check, check_litert, model_of, random

EXACT: dict[str, Any] = {"atol": 0, "rtol": 0}
INTEGERS = np.arange(-30, 30, dtype=np.int32).reshape(3, 4, 5)


@pytest.mark.parametrize(
    ("shape", "new", "expected"),
    [
        ((2, 3, 4), (6, 4), (6, 4)),
        ((2, 3, 4), (-1,), (24,)),
        ((2, 3, 4), (4, -1, 3), (4, 2, 3)),
        ((1,), (), ()),
        ((), (1, 1), (1, 1)),
        ((0, 3), (3, 0), (3, 0)),
        ((0, 3), (-1, 3), (0, 3)),
    ],
)
def test_reshape(
    shape: tuple[int, ...], new: tuple[int, ...], expected: tuple[int, ...], backend: str
) -> None:
    (y,) = check("reshape", [random(0, *shape)], {"shape": new}, backend=backend, **EXACT)
    assert y.shape == expected


@pytest.mark.parametrize(
    ("shape", "axes", "expected"),
    [
        ((1, 3, 1, 2), (), (3, 2)),
        ((1, 3, 1, 2), (0,), (3, 1, 2)),
        ((1, 3, 1, 2), (-2,), (1, 3, 2)),
        ((1, 1), (), ()),
    ],
)
def test_squeeze(
    shape: tuple[int, ...], axes: tuple[int, ...], expected: tuple[int, ...], backend: str
) -> None:
    (y,) = check("squeeze", [random(0, *shape)], {"axes": axes}, backend=backend, **EXACT)
    assert y.shape == expected


def test_transpose_every_permutation(backend: str) -> None:
    for shape in ((5,), (3, 8), (2, 3, 4), (2, 3, 4, 8)):
        for perm in itertools.permutations(range(len(shape))):
            check("transpose", [random(0, *shape)], {"perm": perm}, backend=backend, **EXACT)


def test_transpose_of_many_dimensions(backend: str) -> None:
    generator = np.random.default_rng(0)
    for rank in (5, 6, 7, 8):
        shape = tuple(int(n) for n in generator.integers(1, 4, rank))
        perm = tuple(int(d) for d in generator.permutation(rank))
        check("transpose", [random(rank, *shape)], {"perm": perm}, backend=backend, **EXACT)
    check(
        "transpose", [random(0, *[2] * 9)], {"perm": range(8, -1, -1)}, backend=backend, host="9 dim", **EXACT
    )
    check("transpose", [random(0, *[2] * 9)], {"perm": (8, *range(8))}, backend=backend, **EXACT)
    check("transpose", [random(0, 2, 0, 3)], {"perm": (2, 0, 1)}, backend=backend, **EXACT)
    check("transpose", [INTEGERS], {"perm": (2, 0, 1)}, backend=backend, **EXACT)


BOUNDS = (None, -9, -5, -2, -1, 0, 1, 2, 4, 5, 9)


def test_slices_are_python_slices(backend: str) -> None:
    """Each of 25 runs takes a random slice in each of the dimensions."""
    generator = np.random.default_rng(1)
    for seed in range(25):
        shape = tuple(int(n) for n in generator.choice([1, 2, 5, 8], int(generator.integers(1, 6))))
        begin, end = (
            tuple(BOUNDS[k] for k in generator.integers(0, len(BOUNDS), len(shape))) for _ in range(2)
        )
        strides = tuple(int(k) for k in generator.choice([1, 1, 2, 3, -1, -2], len(shape)))
        shrink = tuple(
            d - len(shape) * int(generator.integers(0, 2))
            for d, (b, n) in enumerate(zip(begin, shape, strict=True))
            if b is not None and -n <= b < n and generator.random() < 0.3
        )
        attrs = {"begin": begin, "end": end, "strides": strides, "shrink_axes": shrink}
        x = random(seed, *shape)
        (y,) = check("strided_slice", [x], attrs, backend=backend, **EXACT)
        index: list[Any] = [slice(*bounds) for bounds in zip(begin, end, strides, strict=True)]
        for axis in shrink:
            index[axis] = begin[axis]
        np.testing.assert_array_equal(y, x[tuple(index)])


def test_a_slice_may_be_a_single_number(backend: str) -> None:
    attrs = {"begin": (1,), "end": (2,), "strides": (1,), "shrink_axes": (0,)}
    (y,) = check("strided_slice", [random(0, 3)], attrs, backend=backend, **EXACT)
    assert y.shape == ()


def test_slices_in_fours(backend: str) -> None:
    attrs = {"begin": (1, None, 8), "end": (None, None, -4), "strides": (1, -1, 1)}
    check("strided_slice", [random(0, 3, 4, 16)], attrs, backend=backend, **EXACT)
    check(
        "strided_slice",
        [INTEGERS],
        {**attrs, "end": (None, None, 9), "begin": (1, -1, -4)},
        backend=backend,
        **EXACT,
    )


@pytest.mark.parametrize(
    ("shape", "paddings"),
    [
        ((5,), [(2, 3)]),
        ((3, 4), [(0, 0), (4, 8)]),
        ((2, 3, 5, 3), [(0, 0), (1, 2), (3, 0), (0, 0)]),
        ((2, 3, 5, 4), [(0, 0), (1, 2), (3, 0), (0, 0)]),
        ((2, 3, 4), [(1, 1), (0, 0), (0, 0)]),
        ((2, 3, 4), [(0, 0), (0, 0), (0, 0)]),
        ((1, 2, 1, 2, 1, 2), [(1, 0), (0, 1), (1, 1), (2, 0), (0, 0), (0, 3)]),
        ((0, 2), [(1, 2), (1, 0)]),
        ((0, 2), [(0, 0), (1, 0)]),
        ((), []),
    ],
)
@pytest.mark.parametrize("value", [0.0, -1.5])
def test_pad(shape: tuple[int, ...], paddings: list[tuple[int, int]], value: float, backend: str) -> None:
    check("pad", [random(0, *shape)], {"paddings": paddings, "value": value}, backend=backend, **EXACT)


def test_pad_of_a_variable(backend: str) -> None:
    """Before the first run it holds zeros, which may be one number in memory."""
    model = Model("variable")
    state = model.variable("state", float32(2, 3, 8))
    model.update(state, model.input("next", state.type))
    model.output(*model.add("pad", [state], {"paddings": [(0, 0), (0, 0), (1, 3)], "value": 1}))
    expected = np.ones((2, 3, 12), np.float32)
    with model.compile(backend) as compiled:
        for value in (0, 7):
            expected[:, :, 1:9] = value
            np.testing.assert_array_equal(compiled(np.full((2, 3, 8), 7, np.float32)), expected)


def test_pad_integers(backend: str) -> None:
    check("pad", [INTEGERS], {"paddings": [(1, 0), (0, 2), (3, 3)], "value": -7}, backend=backend, **EXACT)


@pytest.mark.parametrize(
    ("shapes", "axis"),
    [
        (((2, 3), (4, 3)), 0),
        (((2, 3), (2, 1), (2, 5)), -1),
        (((2, 2, 2, 8), (2, 2, 2, 4), (2, 2, 2, 12)), 3),
        (((2, 2, 2, 3), (2, 5, 2, 3)), 1),
        (((2, 0), (2, 3), (2, 0)), 1),
        (((0, 3), (0, 3)), 0),
        (((3,),), 0),
        (((1, 2, 1, 3, 2, 2), (1, 2, 4, 3, 2, 2)), 2),
    ],
)
def test_concat(shapes: tuple[tuple[int, ...], ...], axis: int, backend: str) -> None:
    xs = [random(seed, *shape) for seed, shape in enumerate(shapes)]
    check("concat", xs, {"axis": axis}, backend=backend, **EXACT)
    check("concat", xs, {"axis": axis, "activation": "relu"}, backend=backend, **EXACT)


def test_concat_of_constants_and_integers(backend: str) -> None:
    check("concat", [random(0, 2, 3), random(1, 2, 2)], {"axis": 1}, constants=(1,), backend=backend, **EXACT)
    check("concat", [INTEGERS, INTEGERS[:, :1]], {"axis": 1}, backend=backend, **EXACT)


def test_references_keep_dtype() -> None:
    for dtype in (np.uint8, np.bool_, np.int64, np.float16):
        x = np.ones((2, 3), dtype)
        for op, attrs in (
            ("transpose", {"perm": (1, 0)}),
            ("pad", {"paddings": [(1, 1), (0, 0)]}),
            ("concat", {"axis": 0}),
            ("reshape", {"shape": (3, 2)}),
        ):
            operation = model_of(op, [x], attrs).operations[0]
            result = np.asarray(operation.definition.reference(x, **attrs))
            assert result.dtype == dtype
            assert result.shape == operation.outputs[0].type.shape


def test_agrees_with_litert() -> None:
    x = random(0, 3, 4, 5, 6)
    i32 = np.int32
    check_litert(
        "transpose", [x], {"perm": (2, 0, 3, 1)}, "TRANSPOSE", operands=[np.array([2, 0, 3, 1], i32)]
    )
    paddings = [(0, 0), (1, 2), (3, 0), (0, 1)]
    check_litert("pad", [x], {"paddings": paddings}, "PAD", operands=[np.array(paddings, i32)])
    check_litert("squeeze", [x[:1]], {}, "SQUEEZE")
    check_litert("concat", [x, x[:, :1]], {"axis": 1}, "CONCATENATION", {"axis": 1})
    bounds = {"begin": (1, -1, 0, 5), "end": (3, -9, 5, 0), "strides": (1, -2, 3, -1)}
    operands = [np.array(v, i32) for v in bounds.values()]
    check_litert("strided_slice", [x], bounds, "STRIDED_SLICE", operands=operands)
    shrink = {**bounds, "shrink_axes": (0, 2)}
    check_litert("strided_slice", [x], shrink, "STRIDED_SLICE", {"shrinkAxisMask": 5}, operands=operands)


X = random(0, 2, 3)
BYTES = np.zeros(2, np.uint8)
SLICE = {"begin": (0, 0), "end": (2, 3), "strides": (1, 1)}


@pytest.mark.parametrize(
    ("op", "inputs", "attrs", "message"),
    [
        (
            "reshape",
            [X],
            {"shape": (4, 2)},
            r"reshape: float32\[2, 3\] with 6 elements cannot take shape \[4, 2\]",
        ),
        ("reshape", [X], {"shape": (4, -1)}, r"cannot take shape \[4, -1\]"),
        (
            "reshape",
            [X],
            {"shape": (-1, -1)},
            r"shape must have entries >= 0 and at most one -1, got \[-1, -1\]",
        ),
        ("reshape", [X], {"shape": (-2, 3)}, r"shape must have entries >= 0"),
        ("reshape", [X[:0]], {"shape": (-1, 0)}, r"cannot take shape \[-1, 0\]"),
        (
            "squeeze",
            [X],
            {"axes": (0,)},
            r"squeeze: dimension 0 must be 1 to be squeezed, got shape \[2, 3\]",
        ),
        ("squeeze", [X], {"axes": (2,)}, "squeeze: axis 2 is out of range for rank 2"),
        (
            "transpose",
            [X],
            {"perm": (0, 0)},
            r"transpose: perm must name each of \[0, 1\] once, got \[0, 0\]",
        ),
        ("transpose", [X], {"perm": (0,)}, r"transpose: perm must have 2 entries, got 1: \[0\]"),
        ("strided_slice", [X], {**SLICE, "strides": (1, 0)}, r"strides must not be 0, got \[1, 0\]"),
        ("strided_slice", [X], {**SLICE, "begin": (0,)}, r"begin must have 2 entries, got 1: \[0\]"),
        (
            "strided_slice",
            [X],
            {**SLICE, "begin": (2, 0), "shrink_axes": (0,)},
            r"begin\[0\] must be an index into shape \[2, 3\], got 2",
        ),
        ("strided_slice", [X], {**SLICE, "shrink_axes": (2,)}, "axis 2 is out of range for rank 2"),
        (
            "pad",
            [X],
            {"paddings": [(1, 1)]},
            r"pad: paddings must have 2 entries, got 1: \[\(1, 1\)\]",
        ),
        (
            "pad",
            [X],
            {"paddings": [(1, 1), (0, -1)]},
            r"pad: paddings must be >= 0, got \[\(1, 1\), \(0, -1\)\]",
        ),
        (
            "concat",
            [X, X[:1]],
            {"axis": 1},
            r"concat: inputs must differ along axis 1 only, got .* \(input 1\)",
        ),
        (
            "concat",
            [X, X.astype(np.int32)],
            {"axis": 0},
            "concat: inputs must have one dtype and quantisation",
        ),
        ("pad", [X], {"paddings": 3}, "pad: paddings must be a sequence, got 3"),
        ("pad", [X], {"paddings": [(1,), (2,)]}, r"pad: paddings must be pairs \(before, after\), got"),
        (
            "pad",
            [BYTES],
            {"paddings": [(0, 0)], "value": 256},
            "pad: value must be a number of uint8, got 256",
        ),
        ("concat", [X], {"axis": 2}, "concat: axis 2 is out of range for rank 2"),
        ("concat", [X, None], {"axis": 0}, "concat: input 1 must not be absent"),
    ],
)
def test_errors(op: str, inputs: list[Array | None], attrs: dict[str, object], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        model_of(op, inputs, attrs)
