"""Loops add stored values of 8 bits in float32 where all pairs have the bits of fixed point."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from gpunn.graph.operation import Operation
from gpunn.model import Model
from gpunn.ops import compiled
from gpunn.ops.elementwise.binary_integer import sum_weights
from gpunn.ops.fixed_point import pair_sums
from gpunn.ops.fixed_point.pair_sums import PairSums
from gpunn.ops.fixed_point.pair_tables import pair_table
from gpunn.ops.fixed_point.tables import every_value
from gpunn.types import Array, DType, Quantization
from tests.ops.compiled.plain import INTEGERS, PLAIN
from tests.ops.quantized import quantized

SCALES = [(0.02, 0.031, 0.047), (0.5, 0.004, 0.3), (1.0, 1.0, 2.0), (0.013, 0.013, 0.009)]  # of a, b, result
HALVES = SCALES[2]


def operation(op: str, dtype: DType, scales: tuple[float, ...], activation: str | None = None) -> Operation:
    """Make an operation on all pairs of stored values."""
    model, shift = Model(op), 0 if dtype is DType.INT8 else 128
    operands = [
        model.input(name, quantized(dtype, (256, 256), scale, zero + shift))
        for name, scale, zero in zip("ab", scales, (3, -20), strict=False)
    ]
    to = Quantization((float(np.float32(scales[2])),), (7 + shift,))
    attrs = {} if activation is None else {"activation": activation}
    model.output(*model.add(op, operands, attrs, quantization=[to]))
    return model.operations[0]


def written_out(given: Operation) -> Array:
    """Return the results of real arithmetic, and NaN where they lie so near halves that rounding decides."""
    (a, b), y = (t.type for t in given.inputs if t is not None), given.outputs[0].type
    values = every_value(a).astype(np.float64)
    reals = [(values - t.quantization.zero_point[0]) * t.quantization.scale[0] for t in (a, b)]
    sign = -1 if given.op == "sub" else 1
    steps = (reals[0][:, None] + sign * reals[1][None, :]) / y.quantization.scale[0]
    low, high = (0, 255) if y.dtype is DType.UINT8 else (-128, 127)
    ends = {None: (low, high), "relu": (y.quantization.zero_point[0], high)}[given.activation]
    near = np.abs(steps - np.floor(steps) - 0.5) < 1e-4
    return np.where(near, np.nan, np.clip(np.rint(steps) + y.quantization.zero_point[0], *ends))


@pytest.fixture(params=["numpy", "plain", "compiled"])
def loops(request: pytest.FixtureRequest) -> compiled.IntegerLoops | None:
    """The loops, plain and compiled; None for numpy."""
    if request.param != "compiled":
        return INTEGERS if request.param == "plain" else None
    pytest.importorskip("numba", reason="numba, of the extra fast-cpu, is not installed")
    made = compiled.load()
    assert made is not None
    return made.integers


@pytest.mark.sample(2)
@pytest.mark.parametrize("activation", [None, "relu"])
@pytest.mark.parametrize("dtype", [DType.INT8, DType.UINT8])
@pytest.mark.parametrize("op", ["add", "sub"])
@pytest.mark.parametrize("scales", SCALES, ids=str)
def test_all_pairs_have_the_bits_of_fixed_point(
    op: str,
    dtype: DType,
    scales: tuple[float, ...],
    activation: str | None,
    loops: compiled.IntegerLoops | None,
) -> None:
    given = operation(op, dtype, scales, activation)
    facet, call, weights = given.facet, given.call(), sum_weights(given.call())
    assert facet is not None and weights is not None
    table = pair_table(call, partial(facet.reference, call))
    sums = PairSums.of(call, weights, table)
    # Halves go away from zero, which no sum of float32 does below it; here each fourth result is one.
    assert (sums is None) == (scales == HALVES and activation is None)
    if sums is None:
        return
    step = 41 if loops is INTEGERS else 1  # plain Python takes long
    values = every_value(call.x).astype(dtype.numpy)
    found = np.empty(65536, dtype.numpy)[::step].copy()
    sums.write(loops, np.repeat(values, 256)[::step], np.tile(values, 256)[::step], found)
    np.testing.assert_array_equal(found, table[::step])
    known = written_out(given).reshape(-1)[::step]
    np.testing.assert_array_equal(found[~np.isnan(known)], known[~np.isnan(known)])


@pytest.mark.parametrize("steps", [(0, 1, -1), ()])
def test_without_proven_numbers_there_is_the_table(
    steps: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[PairSums | None] = []
    of = PairSums.of
    monkeypatch.setattr(PairSums, "of", lambda *given: made.append(of(*given)) or made[-1])
    monkeypatch.setattr(pair_sums, "FACTOR_STEPS", steps)
    given = operation("add", DType.INT8, SCALES[0])
    compute, values = given.prepared(), every_value(given.call().x).astype(np.int8)
    pairs = [np.repeat(values, 256).reshape(256, 256), np.tile(values, 256).reshape(256, 256)]
    facet = given.facet
    assert facet is not None
    expected = facet.reference(given.call(), *pairs)
    asked: list[Array] = []

    def added(a: Array, *rest: Array) -> None:
        asked.append(a)
        rest[-1][...] = expected.reshape(-1)

    for loops in (PLAIN._replace(integers=INTEGERS._replace(pair_sums=added)), None):
        with compiled.in_use(loops):
            np.testing.assert_array_equal(compute(pairs)[0], expected)
    assert bool(asked) == bool(steps)
    assert len(made) == 1 and (made[0] is None) == (not steps)


def test_other_functions_of_pairs_are_no_sums() -> None:
    for op in ("mul", "maximum", "squared_difference"):
        assert sum_weights(operation(op, DType.INT8, SCALES[0]).call()) is None
