"""Sums become stored integers in float32, with the bits of fixed-point arithmetic for all that occur."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpunn.ops.contraction import proven_numbers, single_precision
from gpunn.ops.contraction.conversion import IntegerSteps, Line, RealSteps, spread
from gpunn.ops.contraction.product_rescaling import Rescaling
from gpunn.ops.contraction.requantization import ProvenLoop
from gpunn.ops.contraction.single_precision import LearningSteps, ProvenSteps, SingleSteps
from gpunn.ops.fixed_point.affine import LIMITS, quantize_multiplier, rescale
from gpunn.types import Array, DType
from tests.ops.compiled.plain import INTEGERS
from tests.ops.quantized import quantized

ALL = np.arange(-(2**17), 2**17)[:, None]  # the sums that occur


class Case:
    """A conversion to 8 bits by some factors, with biases up to `bias`; halves go upwards, or nothing below
    the zero point is kept.
    """

    def __init__(self, factors: list[float], dtype: DType, bias: int, clamped: bool = False) -> None:
        rng, (low, high), channels = np.random.default_rng(len(factors)), LIMITS[dtype], len(factors)
        zero = int(rng.integers(low + 1, high))
        pairs = np.array([quantize_multiplier(f) for f in factors], np.int64).T
        bounds = (zero if clamped else low, high)
        self.how = Rescaling(0, 0, zero, *pairs, 0 if clamped else channels, bounds)
        self.bias = rng.integers(-bias, bias + 1, channels)
        self.call: Any = type("Call", (), {"y": quantized(dtype, (1, channels), 0.5, zero)})
        self.sums = np.full(channels, float(ALL.min())), np.full(channels, float(ALL.max()))

    @property
    def line(self) -> Line:
        line = Line.of(self.call, self.how, self.bias)
        assert line is not None
        return line

    @property
    def exact(self) -> RealSteps | IntegerSteps:
        given = self.call, self.how, self.bias
        return RealSteps.of(*given) or IntegerSteps.of(*given)

    def proven(self) -> ProvenSteps | None:
        return ProvenSteps.of(self.line, self.exact, self.sums)

    def converted(self, steps: Any, sums: Array = ALL) -> Array:
        given = np.ascontiguousarray(np.broadcast_to(sums, (len(sums), len(self.bias)))).astype(np.float32)
        found: Array = np.empty(given.shape, self.call.y.dtype.numpy)
        steps.write(given, found)
        return found

    def expected(self, sums: Array = ALL) -> Array:
        away = np.arange(len(self.bias)) >= self.how.upwards
        found = rescale(sums + self.bias, self.how.multiplier, self.how.shift, away) + self.how.zero_y
        return np.clip(found, *self.how.bounds)


CASES = {
    "usual": Case([0.03 / 1.2345**k for k in range(8)], DType.INT8, 2000),
    "halves": Case([2.0**-k for k in range(1, 9)], DType.UINT8, 300),
    "large": Case([0.9371234, 0.75, 0.6180339], DType.INT8, 100),
    "biased": Case([0.0123, 0.05, 0.11], DType.UINT8, 2**17),
    "clamped": Case([0.0123, 0.0081, 0.031], DType.UINT8, 500, clamped=True),
    "dead": Case([1e-7, 3e-9, 0.01], DType.INT8, 2**20),  # all sums have the same result
}


@pytest.mark.parametrize("name", CASES)
def test_proven_steps_are_exact_for_all_sums(name: str) -> None:
    case = CASES[name]
    steps = case.proven()
    assert steps is not None and not len(steps.others)
    np.testing.assert_array_equal(case.converted(steps), case.expected())


def test_numbers_that_are_only_rounded_are_not() -> None:
    case = Case([0.01 / 3 ** (k / 16) for k in range(16)], DType.INT8, 4000)
    line, steps = case.line, case.proven()
    assert steps is not None
    single = spread(line.factor.astype(np.float32)), spread(line.summand.astype(np.float32))
    rounded = ProvenSteps(*single, steps.bounds, steps.offset, steps.others, steps.exact)
    assert (case.converted(rounded) != case.expected()).any()
    np.testing.assert_array_equal(case.converted(steps), case.expected())


def test_a_channel_without_numbers_is_converted_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    case = Case([0.0123, 0.0, 0.0081, 0.5000001], DType.INT8, 99)  # the last: halves, but for the last digits
    given = case.line, case.exact, case.sums
    assert ProvenSteps.of(*given, plain=True) is None
    monkeypatch.setattr(single_precision, "MOST_OTHERS", 1)
    steps = ProvenSteps.of(*given, plain=True)
    assert steps is not None and list(steps.others) == [3]
    np.testing.assert_array_equal(case.converted(steps), case.expected())
    looped = ProvenLoop.of(INTEGERS, len(case.bias), steps)
    some = ALL[:: len(ALL) // 700]  # as loops of plain Python
    np.testing.assert_array_equal(case.converted(looped, some), case.expected(some))


def test_many_sums_are_worth_some_channels_by_themselves() -> None:
    case = Case([0.03 / 1.2345 ** (k / 2) for k in range(15)] + [0.5000001], DType.INT8, 99)
    given = case.line, case.exact, case.sums
    assert ProvenSteps.of(*given, plain=True) is None
    steps = ProvenSteps.of(*given, most=1 / 8, plain=True)
    assert steps is not None and list(steps.others) == [15]
    np.testing.assert_array_equal(case.converted(steps), case.expected())


def test_sums_that_no_numbers_serve_are_corrected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proven_numbers, "SHIFTS", 0)
    case = Case([0.03 / 1.2345 ** (k / 2) for k in range(15)] + [0.5000001], DType.INT8, 99)
    steps = case.proven()
    assert steps is not None and not len(steps.others)
    assert steps.corrections is not None and set(steps.corrections.channels) == {15}
    np.testing.assert_array_equal(case.converted(steps), case.expected())
    missed = case.converted(steps._replace(corrections=None)) != case.expected()
    pixels, channels = missed.nonzero()
    assert {*channels} == {15} and {*ALL[pixels, 0]} <= {*steps.corrections.sums}


@pytest.mark.parametrize("dtype", [DType.INT8, DType.UINT8])
@pytest.mark.parametrize("seed", [0, 2, 3])
def test_channels_of_small_factors_are_exact_with_shifts(seed: int, dtype: DType) -> None:
    case = Case([float(f) for f in np.random.default_rng(seed).uniform(2e-3, 1e-2, 32)], dtype, 20000)
    without, numbers = proven_numbers.proven(case.line, case.sums)
    assert without.shift is None and without.misses.any()
    assert numbers.shift is not None and not numbers.misses.any()
    assert set(numbers.shift.nonzero()[0]) == set(without.misses.nonzero()[0])
    steps = case.proven()
    assert steps is not None and steps.shift is not None
    assert steps.corrections is None and not len(steps.others)
    np.testing.assert_array_equal(case.converted(steps), case.expected())
    rounded = steps._replace(shift=None, summand=spread(case.line.summand.astype(np.float32)))
    assert (case.converted(rounded) != case.expected()).any()


def test_shifts_and_corrections_go_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proven_numbers, "SHIFTS", 1)
    case = Case([float(f) for f in np.random.default_rng(2).uniform(2e-4, 1e-3, 32)], DType.INT8, 20000)
    steps = case.proven()
    assert steps is not None and steps.shift is not None and steps.corrections is not None
    np.testing.assert_array_equal(case.converted(steps), case.expected())


def test_a_float64_that_is_not_sure_proves_nothing() -> None:
    case = Case([2.0**-30, 0.01], DType.UINT8, 0)
    case.bias[:] = 2**29  # half a step: where float64 could err, it may not decide
    assert not case.line.exact[0]
    for numbers in proven_numbers.proven(case.line, case.sums):
        assert numbers.misses[0] > proven_numbers.MOST_MISSES


def test_many_channels_are_searched_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    case = CASES["usual"]
    (whole,) = proven_numbers.proven(case.line, case.sums)
    monkeypatch.setattr(proven_numbers, "CHANNELS", 4)
    (parts,) = proven_numbers.proven(case.line, case.sums)
    for name in ("factor", "summand", "misses"):
        np.testing.assert_array_equal(getattr(parts, name), getattr(whole, name))


@pytest.mark.parametrize("name", CASES)
def test_doubtful_results_are_computed_exactly(name: str) -> None:
    case = CASES[name]
    steps = SingleSteps.of(case.call, case.how, case.bias)
    if name == "dead":
        assert steps is None or isinstance(steps.exact, IntegerSteps)
    if steps is not None:
        np.testing.assert_array_equal(case.converted(steps), case.expected())


@pytest.mark.parametrize("factor, bias, learns", [(0.0123, 500, True), (2.0**-30, 2**29, False)])
def test_steps_learn_after_some_pixels(
    factor: float, bias: int, learns: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(single_precision, "PIXELS_BEFORE_SEARCH", 1000)
    case, asked = Case([factor, 0.0081], DType.UINT8, 0), []
    case.bias[0] = bias
    ranges = lambda: asked.append(1) or case.sums  # noqa: E731
    steps = LearningSteps(case.line, case.exact, case.exact, ranges)
    some = ALL[::600]
    for run in range(5):  # of 437 pixels each
        np.testing.assert_array_equal(case.converted(steps, some), case.expected(some))
        assert len(asked) == (run >= 2)
    assert isinstance(steps._steps, ProvenSteps) == learns


def test_runs_of_few_sums_count_as_more() -> None:
    """A run of 2 channels counts as 256 pixels at least, so 32 runs are as many as start the search."""
    case = Case([0.0123, 0.0081], DType.INT8, 500)
    steps = LearningSteps(case.line, case.exact, case.exact, lambda: case.sums)
    for run in range(40):
        np.testing.assert_array_equal(case.converted(steps, ALL[run::99999]), case.expected(ALL[run::99999]))
        assert isinstance(steps._steps, ProvenSteps) == (run >= 31)


def test_a_writer_goes_from_memory_to_memory() -> None:
    """It keeps views of the sums, which must be those of the array that it gets."""
    case = CASES["usual"]
    steps = case.proven()
    assert steps is not None
    write, rooms = steps.writer(), [np.empty((700, 8), np.float32) for _ in range(2)]
    rooms.append(np.empty((40000, 8), np.float32))  # in several blocks
    for round, room in enumerate([rooms[k] for k in (0, 0, 1, 0, 2, 2, 1)]):
        some = ALL[round * 9 :: 3][: len(room)]
        room[...] = some
        found: Array = np.empty(room.shape, np.int8)
        write(room, found)
        np.testing.assert_array_equal(found, case.expected(some))
