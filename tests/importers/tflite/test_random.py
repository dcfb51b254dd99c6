"""Random numbers: equal to LiteRT's for the same seeds, run after run."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from gpunn.errors import FormatError, ModelError
from gpunn.model import load
from gpunn.types import Array, DType, TensorType, float32
from tests.importers.tflite.case import ints
from tests.ops.harness import random
from tests.tflite_builder import Graph, litert_runs, single_op

SEEDS = ((1, 2), (0, 5), (12_345_678_901, -7))
SHAPE = (3, 7)


@pytest.mark.parametrize("seeds", SEEDS)
@pytest.mark.parametrize("operator", ["RANDOM_UNIFORM", "RANDOM_STANDARD_NORMAL"])
def test_numbers_of_a_shape(operator: str, seeds: Sequence[int], backend: str) -> None:
    """Normal numbers differ by two roundings of 2^-24: of a radius of up to 5.7, and of a sine."""
    shape = TensorType(DType.INT32, (2,))
    graph = Graph()
    options = {"seed": seeds[0], "seed2": seeds[1]}
    known = graph.constant(np.array(SHAPE, np.int32))
    (y,) = graph.add(operator, [known], [float32(*SHAPE)], options)
    (z,) = graph.add("NEG", [y], [float32(*SHAPE)])
    fed = single_op(operator, [shape], [float32(*SHAPE)], options)
    answers = litert_runs(fed, [[np.array(SHAPE, np.int32)]] * 3)
    near = 0 if operator == "RANDOM_UNIFORM" else 6 * 4 * 2**-24
    with load(graph.build([y, z])).compile(backend=backend) as compiled:
        for _ in range(2):
            for (answer,) in answers:
                found, negative = compiled()
                np.testing.assert_allclose(found, answer, rtol=0, atol=near)
                np.testing.assert_array_equal(negative, -found)
            compiled.reset_state()


def test_numbers_of_a_computed_shape(backend: str) -> None:
    """The generator continues from run to run, for all shapes."""
    options = {"seed": 1, "seed2": 2}
    file = single_op("RANDOM_UNIFORM", [TensorType(DType.INT32, (2,))], [float32(1, 1)], options)
    shapes = [[np.array(shape, np.int32)] for shape in ((2, 3), (1, 5), (2, 3), (2, 3))]
    with load(file).compile(backend=backend) as compiled:
        for shape, (answer,) in zip(shapes, litert_runs(file, shapes), strict=True):
            np.testing.assert_array_equal(compiled(*shape), answer)


@pytest.mark.parametrize("samples", [1, 9, 12])
@pytest.mark.parametrize("dtype", [DType.INT32, DType.INT64])
def test_classes(samples: int, dtype: DType, backend: str) -> None:
    logits = random(1, 3, 5)
    logits[1, 2] = -np.inf
    options = {"seed": 3, "seed2": 4}
    result = TensorType(dtype, (3, samples))
    file = single_op("MULTINOMIAL", [float32(3, 5), ints(samples)[0]], [result], options)
    with load(file).compile(backend=backend) as compiled:
        for (answer,) in litert_runs(file, [[logits]] * 3):
            found = compiled(logits)
            assert found.dtype == dtype.numpy
            np.testing.assert_array_equal(found, answer)


def test_each_operator_draws_for_itself(backend: str) -> None:
    graph = Graph()
    shape = graph.constant(ints(4))
    results = [
        graph.add("RANDOM_UNIFORM", [shape], [float32(4)], {"seed": 1, "seed2": s})[0] for s in (2, 2, 3)
    ]
    with load(graph.build(results)).compile(backend=backend) as compiled:
        first, second, other = compiled()
        again = compiled()[0]
    np.testing.assert_array_equal(first, second)
    assert not (first == other).any() and not (first == again).any()


def test_missing_seeds_are_drawn_anew_for_each_load() -> None:
    graph = Graph()
    (y,) = graph.add("RANDOM_UNIFORM", [graph.constant(ints(50))], [float32(50)])
    found = []
    for _ in range(2):
        with load(graph.build([y])).compile(backend="cpu") as compiled:
            found.append(compiled())
    assert not (found[0] == found[1]).any()
    assert min(map(np.min, found)) >= 0 and max(map(np.max, found)) < 1


def test_the_normal_distribution() -> None:
    """The mean of n numbers is within 5 / sqrt(n) of 0, that of their squares within 5 sqrt(2 / n) of 1."""
    graph, count = Graph(), 20_000
    (y,) = graph.add("RANDOM_STANDARD_NORMAL", [graph.constant(ints(count))], [float32(count)], {"seed": 9})
    with load(graph.build([y])).compile(backend="cpu") as compiled:
        found = compiled().astype(np.float64)
    assert abs(found.mean()) < 5 / np.sqrt(count)
    assert abs(np.square(found).mean() - 1) < 5 * np.sqrt(2 / count)


@pytest.mark.parametrize(
    ("operator", "inputs", "result", "reason"),
    [
        ("RANDOM_UNIFORM", [ints(-1)], float32(1), "shape must have entries >= 0"),
        ("MULTINOMIAL", [float32(3), ints(1)[0]], TensorType(DType.INT64, (1,)), "takes scores .N, classes."),
        ("MULTINOMIAL", [float32(3, 2), ints(-1)[0]], TensorType(DType.INT64, (1,)), "0 or more samples"),
        ("MULTINOMIAL", [float32(3, 2), ints(1)[0]], TensorType(DType.INT8, (3, 1)), "dtype must be int32"),
    ],
)
def test_wrong_operators_are_refused(
    operator: str, inputs: Sequence[Array | TensorType], result: TensorType, reason: str
) -> None:
    with pytest.raises((FormatError, ModelError), match=reason):
        load(single_op(operator, inputs, [result]))
