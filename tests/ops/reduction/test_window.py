"""Reductions from an initial value, of windows and of whole axes, on both backends."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import gpunn
from gpunn.errors import ModelError
from gpunn.model import Model
from gpunn.ops import OPS
from gpunn.ops.accuracy import PROMISE
from gpunn.ops.reduction import window
from gpunn.passes import optimise
from gpunn.types import Array, DType, Quantization, TensorType
from tests.ops.harness import EPS, check, model_of, random
from tests.ops.integer_checks import integer_model
from tests.ops.movement.test_dilate import placed
from tests.pairwise import pairwise

FUNCTIONS: Mapping[str, tuple[Callable[..., Any], float]] = {
    "sum": (np.sum, 0),
    "prod": (np.prod, 1),
    "max": (np.max, -np.inf),
    "min": (np.min, np.inf),
}
# Shape of x, size, strides, dilations, space between elements, and padding.
WINDOWS: list[tuple[Sequence[int], Sequence[int], dict[str, Any]]] = [
    ((7,), (3,), {}),
    ((5, 6), (2, 3), {"strides": (1, 2)}),
    ((5, 6), (1, 2), {"dilations": (1, 3), "paddings": ((0, 0), (1, 2))}),
    ((4, 5), (2, 2), {"base_dilations": (2, 1), "paddings": ((1, -1), (-1, 2))}),
    ((3, 4, 5), (1, 1, 1), {"strides": (2, 1, 3)}),
    ((3, 4, 5), (1, 1, 1), {}),
    ((2, 3, 4, 2), (2, 1, 3, 2), {"strides": (1, 2, 1, 1)}),
    ((2, 5, 7, 3), (1, 2, 3, 1), {"strides": (1, 1, 2, 1), "paddings": ((0, 0), (1, 0), (2, 1), (0, 0))}),
    ((1, 5, 4, 4), (1, 3, 2, 1), {"base_dilations": (1, 2, 1, 1)}),
    ((1, 2, 4, 4), (1, 3, 2, 1), {}),
    ((3, 2), (4, 1), {}),
    ((3, 2), (2**40, 1), {"dilations": (1 << 20, 1)}),
    ((0, 3), (1, 2), {}),
    ((), (), {}),
]


def joined(x: Array, function: str, initial: Any, size: Sequence[int], ways: Mapping[str, Any]) -> Array:
    """Reduce window by window; reals in float64."""
    reduce, neutral = FUNCTIONS[function]
    ones, none = (1,) * x.ndim, ((0, 0),) * x.ndim
    if initial is None and x.dtype.kind != "f":
        neutral = {"max": np.iinfo(x.dtype).min, "min": np.iinfo(x.dtype).max}.get(function, neutral)
    start = neutral if initial is None else initial
    padded = x.astype(np.float64) if x.dtype.kind == "f" else x
    padded = placed(padded, start, ways.get("base_dilations", ones), ways.get("paddings", none))
    steps, apart = ways.get("strides", ones), ways.get("dilations", ones)
    reach = [(k - 1) * d + 1 for k, d in zip(size, apart, strict=True)]
    first = [range(0, n - r + 1, s) for n, r, s in zip(padded.shape, reach, steps, strict=True)]
    result = np.zeros([len(places) for places in first], padded.dtype)
    for at, place in zip(np.ndindex(result.shape), itertools.product(*first), strict=True):
        cells = padded[tuple(slice(p, p + r, d) for p, r, d in zip(place, reach, apart, strict=True))]
        result[at] = np.asarray(reduce(np.append(cells, np.array(start, padded.dtype)))).astype(padded.dtype)
    return result


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("window", "function", "dtype"), pairwise(WINDOWS, [*FUNCTIONS], [np.float32, np.int32, np.int8])
)
def test_windows(window: Any, function: str, dtype: Any, backend: str) -> None:
    """Each term rounds in float32: at most 16 terms of up to 4 are added, or terms of up to 2 multiplied."""
    shape, size, ways = window
    x = random(1, *shape, low=-2, high=2) if dtype is np.float32 else random(1, *shape).astype(dtype)
    attrs = {"function": function, "size": size, **ways}
    atol = 16 * 64 * EPS if dtype is np.float32 and function in ("sum", "prod") else 0
    for initial, constants in ((None, ()), (np.array(1.5, dtype), (1,)), (np.array([3], dtype), ())):
        inputs = [x] if initial is None else [x, initial]
        (y,) = check(
            "reduce_window", inputs, attrs, backend=backend, constants=constants, atol=atol, rtol=16 * EPS
        )
        expected = joined(x, function, None if initial is None else initial.item(), size, ways)
        np.testing.assert_allclose(y, expected, rtol=16 * EPS, atol=atol)


@pytest.mark.parametrize(("function", "meaning"), [("any", np.any), ("all", np.all), ("max", np.any)])
def test_windows_of_bools(function: str, meaning: Any, backend: str) -> None:
    x = random(1, 5, 6) > 0
    (y,) = check("reduce_window", [x], {"function": function, "size": (2, 3)}, backend=backend)
    expected = [[meaning(x[i : i + 2, j : j + 3]) for j in range(4)] for i in range(4)]
    np.testing.assert_array_equal(y, expected)


def test_windows_of_quantised_tensors(backend: str) -> None:
    """A maximum is one of the stored numbers."""
    model, type = Model(), TensorType(DType.INT8, (4, 5), Quantization((0.5,), (3,)))
    x = np.random.default_rng(0).integers(-128, 128, (4, 5), np.int8)
    model.output(*model.add("reduce_window", [model.input("x", type)], {"function": "max", "size": (2, 2)}))
    with model.compile(backend=backend) as compiled:
        found = compiled(x)
    np.testing.assert_array_equal(found, joined(x, "max", None, (2, 2), {}))


@pytest.mark.parametrize(("initial", "zero"), [(None, 0), (0, 0), (3, 3), (50, 0), (0, 3)])
@pytest.mark.parametrize("scale", [0.5, 2.0, 64.0])
def test_sums_of_quantised_windows_saturate_at_the_end(
    initial: int | None, zero: int, scale: float, backend: str
) -> None:
    """Sums of some rows are out of range where those of all are not. All real numbers are exact."""
    x = np.array([[100, -100, 3, 8], [100, -100, 4, -2], [90, -6, 100, 100]], np.int8)
    of = Quantization((0.5,), (zero,))
    stored = [x] if initial is None else [x, np.array(initial, np.int8)]
    types = [TensorType(DType.INT8, v.shape, of) for v in stored]
    attrs = {"function": "sum", "size": (2, 2)}
    host = "one that changes results" if initial not in (None, zero) else ""
    to = Quantization((scale,), (-3,))
    model = integer_model("reduce_window", stored, types, attrs, to, constants=(1,))
    with model.compile(backend=backend) as compiled:
        if backend != "cpu":
            reasons = [p.reason for p in compiled.placement if p.backend == "cpu"]
            assert bool(reasons) == bool(host) and all(host in reason for reason in reasons)
        found = compiled(x)
    real = [(v.astype(np.int64) - zero) * 0.5 for v in stored]
    sums = [[real[0][i : i + 2, j : j + 2].sum() for j in range(3)] for i in range(2)]
    exact = (np.array(sums) + sum(real[1:])) / scale
    away = np.trunc(exact + np.copysign(0.5, exact)) - 3
    np.testing.assert_array_equal(found, np.clip(away, -128, 127))


def test_products_of_quantised_windows_saturate_at_the_end(backend: str) -> None:
    """100 * 2 is more than uint8 holds in halves; times 1/2 it is not. Four factors round by 2 steps."""
    x = np.array([[200, 1, 1], [4, 2, 1]], np.uint8)
    type = TensorType(DType.UINT8, x.shape, Quantization((0.5,), (0,)))
    model = integer_model("reduce_window", [x], [type], {"function": "prod", "size": (2, 2)})
    with model.compile(backend=backend) as compiled:
        np.testing.assert_allclose(compiled(x), [[200, 0]], rtol=0, atol=2)


@pytest.mark.sample(2)
@pytest.mark.parametrize("dtype", [np.float32, np.int32])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_windows_of_many_elements(
    function: str, dtype: Any, backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Windows are joined from windows of 1, 2, 4 ... elements; no gather has an index for each."""
    monkeypatch.setattr(window, "MAX_PLACES", 0)
    further = [
        ((23,), (size,), {"strides": (stride,), "dilations": (apart,)})
        for size, stride, apart in ((23, 1, 1), (8, 3, 1), (7, 1, 3), (13, 5, 1), (2, 1, 9))
    ]
    for shape, size, ways in (*WINDOWS[:5], WINDOWS[6], *further):
        x = random(1, *shape, low=-2, high=2) if dtype is np.float32 else random(1, *shape).astype(dtype)
        attrs = {"function": function, "size": size, **ways}
        # Up to 24 terms below 2 are added, or products of numbers below 2 multiplied.
        atol = 24 * 48 * EPS if dtype is np.float32 and function == "sum" else 0
        assert "gather" not in {o.op for o in optimise(model_of("reduce_window", [x], attrs)).operations}
        (y,) = check("reduce_window", [x], attrs, backend=backend, atol=atol, rtol=24 * EPS)
        np.testing.assert_allclose(y, joined(x, function, None, size, ways), rtol=24 * EPS, atol=atol)


def test_many_quantised_elements(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A maximum of maxima has the bits of one; sums would be rounded after each step, and run on the host."""
    monkeypatch.setattr(window, "MAX_PLACES", 11)
    x = np.random.default_rng(0).integers(-128, 128, 9).astype(np.int8)
    for function, host in (("max", ""), ("min", ""), ("sum", "quantised elements to add")):
        model = Model()
        operand = model.input("x", TensorType(DType.INT8, (9,), Quantization((0.5,), (3,))))
        model.output(*model.add("reduce_window", [operand], {"function": function, "size": (5,)}))
        with model.compile(backend=backend) as compiled:
            reasons = [p.reason for p in compiled.placement if p.backend == "cpu"]
            found = compiled(x)
        if backend != "cpu":
            assert bool(reasons) == bool(host) and all(host in reason for reason in reasons)
        if not host:
            np.testing.assert_array_equal(found, joined(x, function, None, (5,), {}))


def test_windows_with_more_elements_than_can_be_addressed(backend: str) -> None:
    """All windows of 2^21 of 2^21 + 2,000 elements have four thousand million."""
    x = np.ones((1 << 21) + 2_000, np.int32)
    (y,) = check("reduce_window", [x], {"function": "sum", "size": (1 << 21,)}, backend=backend)
    assert y.shape == (2_001,) and (y == 1 << 21).all()


AXES: list[tuple[Sequence[int], Sequence[int]]] = [
    ((7,), (0,)),
    ((3, 4, 5), (1,)),
    ((3, 4, 5), (0, -1)),
    ((3, 4, 5), (2, 0, 1, 2)),
    ((3, 4, 5), ()),
    ((2, 1, 3, 2, 4), (1, 3)),
    ((2, 0, 3), (1,)),
    ((), ()),
]


@pytest.mark.parametrize(
    ("case", "function", "dtype"), pairwise(AXES, [*FUNCTIONS], [np.float32, np.int32, np.int64, np.int8])
)
def test_whole_axes(case: Any, function: str, dtype: Any, backend: str) -> None:
    shape, axes = case
    x = random(0, *shape, low=-3, high=3).astype(dtype)
    x, total = np.asarray(x), x.astype(np.float64)
    for start in (2, -1):
        for first in (np.array(start, dtype), np.array([[start]], dtype)):
            attrs = {"function": function, "axes": axes}
            (y,) = check("reduce_from", [x, first], attrs, backend=backend, rtol=80 * EPS)
        reduce, _ = FUNCTIONS[function]
        kept = {axis % max(len(shape), 1) for axis in axes}
        both = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}[function]
        initial = {"initial": {"sum": 0, "prod": 1, "max": -np.inf, "min": np.inf}[function]}
        wanted = both(reduce(total, axis=tuple(kept), **initial) if axes else total, start)
        np.testing.assert_allclose(y, wanted.astype(y.dtype), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("function", "meaning"), [("any", np.any), ("all", np.all), ("min", np.all)])
def test_whole_axes_of_bools(function: str, meaning: Any, backend: str) -> None:
    x = random(0, 6, 5) > -2
    for start in (False, True):
        inputs = [x, np.array(start)]
        (y,) = check("reduce_from", inputs, {"function": function, "axes": (1,)}, backend=backend)
        row = np.full((6, 1), start)
        np.testing.assert_array_equal(y, meaning(np.concatenate([x, row], axis=1), axis=1))


def quantised(shape: tuple[int, ...], scale: float, to: Quantization, function: str) -> Model:
    """A model that joins the rows of an int8 tensor, of zero point 3, and an initial value alike."""
    model, quantization = Model(), Quantization((scale,), (3,))
    operands = [model.input(n, TensorType(DType.INT8, s, quantization)) for n, s in (("x", shape), ("i", ()))]
    attrs = {"function": function, "axes": (1,)}
    model.output(*model.add("reduce_from", operands, attrs, quantization=[to]))
    return model


def test_whole_axes_of_quantised_tensors(backend: str) -> None:
    """In the scale of x the sums overflow int8; in the scale of the result they fit."""
    model = quantised((3, 40), 0.5, Quantization((30.0,), (0,)), "sum")
    x = np.random.default_rng(0).integers(20, 128, (3, 40)).astype(np.int8)
    with model.compile(backend) as compiled:
        assert {p.backend for p in compiled.placement} == {backend}
        reals = ((x.astype(np.float64) - 3) * 0.5).sum(axis=1) + (9 - 3) * 0.5
        np.testing.assert_allclose(compiled(x, np.array(9, np.int8)), np.round(reals / 30), atol=1)


# Of scale 0.1 and zero point 3, so that int8 ends at 12.4 and -13.1: three numbers, the initial value, and
# the result, worked by hand.
REDUCED = [
    ("sum", (127, 127, -128), 33, 127),  # 12.4 + 12.4 - 13.1 = 11.7, and 3 more leave int8
    ("sum", (127, 127, 127), -17, 107),  # 37.2 is kept as 12.4, less 2
    ("sum", (-128, -128, -128), 103, -28),  # -39.3 is kept as -13.1, plus 10
    ("sum", (13, 3, -7), 4, 4),  # 1 + 0 - 1, and 0.1
    ("max", (13, 3, -7), 14, 14),
    ("max", (13, 3, -7), -128, 13),
    ("min", (13, 3, -7), -8, -8),
]


@pytest.mark.parametrize(("function", "row", "initial", "wanted"), REDUCED)
def test_quantised_reductions_saturate_before_they_are_joined(
    function: str, row: Sequence[int], initial: int, wanted: int, backend: str
) -> None:
    model = quantised((2, 3), 0.1, Quantization((0.1,), (3,)), function)
    inputs = [np.array([row, row[::-1]], np.int8), np.array(initial, np.int8)]
    with model.compile(backend) as compiled:
        assert {p.backend for p in compiled.placement} == {backend}
        np.testing.assert_array_equal(compiled(*inputs), [wanted] * 2)
    np.testing.assert_array_equal(model.evaluate(inputs)[0], [wanted] * 2)


@pytest.mark.parametrize(
    ("attrs", "message"),
    [
        ({"function": "median", "axes": ()}, "function must be sum or prod"),
        ({"function": "sum", "axes": (2,)}, "axis 2 is out of range for rank 2"),
        ({"function": "all", "axes": (0,)}, "input 0 must be bool"),
        ({"function": "sum"}, "needs attribute axes"),
    ],
)
def test_wrong_axes_are_refused(attrs: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelError, match=f"reduce_from: {message}"):
        model_of("reduce_from", [random(0, 2, 3), random(0)], attrs)
    with pytest.raises(ModelError, match="reduce_from: input 1 must be one element of the type"):
        model_of("reduce_from", [random(0, 2, 3), random(0, 2)], {"function": "sum", "axes": ()})


@pytest.mark.parametrize("function", ["sum", "prod"])
def test_comparisons_allow_for_many_roundings(function: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sum of 9000 terms that cancel, and a product of as many: they round more often than one result."""
    monkeypatch.setitem(OPS, "reduce_window", replace(OPS["reduce_window"], expand=None))
    half = random(3, 4500, low=0.999, high=1.001)
    terms = {"sum": [1e4 * half, -1e4 * half[::-1]], "prod": [half, 1e6 * half[:1], half[1:]]}[function]
    x = np.concatenate(terms).astype(np.float32)
    model = model_of("reduce_window", [x], {"function": function, "size": (9000,)})
    found = gpunn.compare(model, [x], ["cpu"], per_layer=True)
    assert found.ok and [layer.op for layer in found.layers] == ["reduce_window"]
    monkeypatch.setitem(OPS, "reduce_window", replace(OPS["reduce_window"], accuracy=PROMISE))
    assert not gpunn.compare(model, [x], ["cpu"], per_layer=True).ok


@pytest.mark.parametrize(
    ("attrs", "message"),
    [
        ({"function": "mean", "size": (1, 1)}, "function must be sum or"),
        ({"function": "sum", "size": (1,)}, "has windows of .1. for float32.2, 3."),
        ({"function": "sum", "size": (1, 0)}, "go below 1"),
        ({"function": "sum", "size": (1, 1), "strides": (0, 1)}, "go below 1"),
        *(
            ({"function": "sum", "size": (1, 1), name: (1, 2**63)}, "leave 64 bits")
            for name in ("size", "strides", "base_dilations", "dilations")
        ),
        ({"function": "sum", "size": (1, 1), "paddings": ((0, -2), (-1, -3))}, "cut more than there is"),
        ({"function": "any", "size": (1, 1)}, "must be bool"),
    ],
)
def test_wrong_windows_are_refused(attrs: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelError, match=f"reduce_window: .*{message}"):
        model_of("reduce_window", [random(0, 2, 3)], attrs)


@pytest.mark.parametrize("far", [2**31, 2**63 - 1])
def test_windows_that_lie_far_apart(far: int, backend: str) -> None:
    x = random(0, 2, 3)
    attrs = {"function": "sum", "size": (2, 2), "strides": (far, far)}
    (y,) = check("reduce_window", [x], attrs, backend=backend, atol=2e-6)  # three sums of up to 16
    np.testing.assert_allclose(y, [[x[:, :2].sum(dtype=np.float64)]], atol=2e-6)
    for more in ({"dilations": (1, far)}, {"size": (1, far)}):
        (y,) = check("reduce_window", [x], {**attrs, **more}, backend=backend)
        assert y.shape[1] == 0


def test_too_much_padding_is_refused() -> None:
    attrs = {"function": "sum", "size": (1,), "strides": (1 << 40,), "paddings": ((1 << 40, 0),)}
    with pytest.raises(ModelError, match="can be addressed"):
        model_of("reduce_window", [random(0, 3)], attrs)
