"""Layers whose starts and axes are values of the run: one program for all values, and numpy's results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import gpunn
from tests.importers.coreml.builder import constant, layer, linear, model
from tests.ops.harness import random

Message = Any
SHAPE = (9, 4, 5)
X = random(0, *SHAPE)


def given(kind: str, *counts: int) -> tuple[Message, Message]:
    """A specification of one layer on x and on inputs of so many numbers; and the layer's parameters."""
    made = model(SHAPE, exact=True)
    names = [f"given{k}" for k in range(len(counts))]
    for name, count in zip(names, counts, strict=True):
        more = made.description.input.add(name=name)
        more.type.multiArrayType.shape.append(count)
        more.type.multiArrayType.dataType = 65568
    return made, layer(made, kind, ["x", *names])


def numbers(*values: float) -> Any:
    return np.array(values, np.float32)


def test_sums_along_any_axis(backend: str) -> None:
    made, params = given("cumSum", 1)
    params.axis, params.reverse = 7, True  # the second input overrides the axis
    with gpunn.load(made.SerializeToString()).compile(backend) as compiled:
        for axis in range(-3, 3):
            expected = np.flip(np.cumsum(np.flip(X, axis), axis), axis)
            np.testing.assert_allclose(compiled(X, numbers(axis)), expected, rtol=1e-5, atol=1e-5)
        assert compiled.stats.programs == 1
        with pytest.raises(gpunn.ModelError, match=r"the axis must be in -3 \.\.\. 2, got 3"):
            compiled(X, numbers(3))


def test_slices_by_size(backend: str) -> None:
    made, params = given("sliceBySize", 1)
    params.axis, params.size = -3, 4
    with gpunn.load(made.SerializeToString()).compile(backend) as compiled:
        for start in (0, 3, 5, -9, -4):
            np.testing.assert_array_equal(compiled(X, numbers(start)), X[start:][:4])
        assert compiled.stats.programs == 1
        with pytest.raises(gpunn.ModelError, match=r"starts must be in -9 \.\.\. -4 or 0 \.\.\. 5, got 6"):
            compiled(X, numbers(6))


def test_slices_by_size_to_the_end(backend: str) -> None:
    made, params = given("sliceBySize", 1)
    params.axis, params.size = 0, -1
    with gpunn.load(made.SerializeToString()).compile(backend) as compiled:
        for start in (3, -2):
            np.testing.assert_array_equal(compiled(X, numbers(start)), X[start:])


@pytest.mark.parametrize(("size", "axis"), [(10, 0), (0, 1), (6, -1)])
def test_slices_that_never_fit(size: int, axis: int) -> None:
    made, params = given("sliceBySize", 1)
    params.axis, params.size = axis, size
    with pytest.raises(gpunn.FormatError, match=f"{size} elements from 1 indices on do not fit"):
        gpunn.load(made.SerializeToString())


def test_ranges_of_a_size(backend: str) -> None:
    """x[a:a + 5:2, :, i]: begins and ends are inputs, where an end of [i] has no meaning."""
    made, params = given("sliceDynamic", 3, 3)
    params.strides.extend([2, 1, 1])
    params.beginMasks.extend([False, True, False])
    params.endMasks.extend([False, True, False])
    params.squeezeMasks.extend([False, False, True])
    with gpunn.load(made.SerializeToString()).compile(backend) as compiled:

        def run(begin: Sequence[int], end: Sequence[int]) -> None:
            found = compiled(X, numbers(*begin), numbers(*end))
            np.testing.assert_array_equal(found, X[begin[0] : end[0] : 2, :, begin[2]])

        run((0, 9, 2), (5, 9, 0))
        made_by_now = compiled.stats.programs
        for start in range(1, 5):
            run((start, 0, start % 5), (start + 5, 0, 0))
        run((-8, 0, -1), (-3, 0, 0))
        assert compiled.stats.programs == made_by_now
        run((0, 0, 0), (9, 0, 0))
        assert compiled.stats.programs > made_by_now


def test_counting_from_any_start(backend: str) -> None:
    made = model((1,), exact=True)
    start = made.description.input.add(name="start")
    start.type.multiArrayType.shape.append(1)
    start.type.multiArrayType.dataType = 65568
    layer(made, "rangeDynamic", ["x", "start"]).stepSizeValue = 2
    with gpunn.load(made.SerializeToString()).compile(backend) as compiled:
        np.testing.assert_array_equal(compiled(numbers(7), numbers(1)), [1, 3, 5])
        made_by_now = compiled.stats.programs
        for first in (2, 10, -3):
            found = compiled(numbers(first + 6), numbers(first))
            np.testing.assert_array_equal(found, first + np.arange(0, 6, 2))
        assert compiled.stats.programs == made_by_now


def test_values_that_do_not_fit_are_no_fault_of_the_file(backend: str) -> None:
    made, params = given("sliceBySize", 1)
    params.axis, params.size = 0, -1
    with (
        gpunn.load(made.SerializeToString()).compile(backend) as compiled,
        pytest.raises(gpunn.ModelError, match="from 9 are not in shape") as caught,
    ):
        compiled(X, numbers(9))
    assert not isinstance(caught.value, gpunn.FormatError)


def test_more_than_one_number_is_no_bound() -> None:
    made, params = given("rangeDynamic", 1)
    params.stepSizeValue = 1
    with pytest.raises(gpunn.FormatError, match="expected one number for each of end, start and step"):
        gpunn.load(made.SerializeToString())


def test_shapes_that_follow_from_that_of_the_input_are_known_before_a_run(backend: str) -> None:
    """Shapes are reals in Core ML. y has as many rows as twice those of x and one."""
    made = model((4, 3), exact=True)
    ranges = made.description.input[0].type.multiArrayType.shapeRange.sizeRanges
    for low, high in ((1, 20), (3, 3)):
        ranges.add(lowerBound=low, upperBound=high)
    layer(made, "getShape", ["x"], ["shape"])
    params = layer(made, "sliceStatic", ["shape"], ["rows"])
    for field, value in (("beginIds", 0), ("endIds", 1), ("strides", 1)):
        getattr(params, field).append(value)
    for field in ("beginMasks", "endMasks", "squeezeMasks"):
        getattr(params, field).append(False)
    linear(made, "rows", "more rows", 2, 1)
    constant(made, "two", [2])
    layer(made, "concatND", ["more rows", "two"], ["wanted"])
    layer(made, "fillDynamic", ["wanted"]).value = 7
    read = gpunn.load(made.SerializeToString())
    assert not read.pending
    with read.compile(backend) as compiled:
        for rows in (4, 9):
            assert compiled(random(0, rows, 3)).tolist() == [[7, 7]] * (2 * rows + 1)
