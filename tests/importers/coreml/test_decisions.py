"""The decisions of the rules, by numbers worked out by hand."""

from __future__ import annotations

import ast
from typing import Any

import numpy as np
import pytest

from gpunn.importers.coreml.rules.decisions import DECISIONS
from tests.importers.coreml.builder import Message, constant, floats, layer, model, run, single
from tests.resources import ROOT

FOLDER = ROOT / "tests" / "importers" / "coreml"


def weights(message: Message, values: Any) -> None:
    """Set weights."""
    message.floatValue.append(floats(values))


@pytest.mark.parametrize("decision", DECISIONS, ids=lambda decision: decision.point)
def test_every_decision_names_a_test(decision: Any) -> None:
    file, _, name = decision.test.partition("::")
    tree = ast.parse((FOLDER / f"{file}.py").read_text(encoding="utf-8"))
    assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    assert all((decision.point, decision.document, decision.gpunn, decision.reason))


def test_deconvolution_dilates_its_kernel(backend: str) -> None:
    """A kernel of 2 with dilation 2 reaches over 3 places, so 2 inputs give 4 outputs."""
    made, params = single("convolution", (1, 1, 1, 2))
    params.outputChannels = params.kernelChannels = 1
    params.isDeconvolution = True
    params.kernelSize.extend([1, 2])
    params.dilationFactor.extend([1, 2])
    params.valid.SetInParent()
    weights(params.weights, [10, 1])
    (y,) = run(made, backend, [[[[1, 2]]]])
    np.testing.assert_array_equal(y, [[[[10, 20, 1, 2]]]])


@pytest.mark.parametrize(("epsilon", "expected"), [(0, [0, 1]), (1, np.log([2, np.e + 1]))])
def test_logarithm_of_a_sum_with_epsilon(epsilon: float, expected: Any, backend: str) -> None:
    made, params = single("unary", (2,))
    params.type, params.epsilon = 5, epsilon
    np.testing.assert_allclose(run(made, backend, [1, np.e])[0], expected, atol=1e-6)


def test_parts_that_do_not_divide_the_axis(backend: str) -> None:
    made, params = single("splitND", (5,), outputs=3)
    params.numSplits = 3
    assert [y.tolist() for y in run(made, backend, range(5))] == [[0, 1], [2, 3], [4]]


def test_a_number_has_rank_0_inside_and_1_outside(backend: str) -> None:
    made, params = single("reduceSum", (2, 3))
    params.reduceAll = True
    expand = made.neuralNetwork.layers.add(name="e", input=["y0"], output=["y1"]).expandDims
    expand.axes.extend([0, 1])  # of rank 0; of rank 1, axis 1 of three would be in the middle
    made.description.output.add(name="y1").type.multiArrayType.dataType = 65568
    total, expanded = run(made, backend, np.arange(6).reshape(2, 3))
    assert (total.tolist(), expanded.tolist()) == ([15], [[15]])


def test_numbers_are_joined_as_vectors(backend: str) -> None:
    made, params = single("squeeze", (1,), (2,))
    params.squeezeAll = True
    squeeze = made.neuralNetwork.layers[0]
    del squeeze.input[1:]
    squeeze.output[0] = "number"
    made.neuralNetwork.layers.add(name="c", input=["number", "x1"], output=["y0"]).concatND.SetInParent()
    assert run(made, backend, [7], [8, 9])[0].tolist() == [7, 8, 9]


def test_int8_weights_with_a_bias(backend: str) -> None:
    """Half of [[1, -2], [3, 4]] times [10, 20], and the bias."""
    made, params = single("innerProduct", (2,))
    params.inputChannels = params.outputChannels = 2
    params.hasBias = params.int8DynamicQuantize = True
    params.weights.int8RawValue = np.int8([1, -2, 3, 4]).tobytes()
    params.weights.quantization.linearQuantization.scale.append(0.5)
    weights(params.bias, [100, 200])
    assert run(made, backend, [10, 20])[0].tolist() == [85, 255]


def test_zero_is_the_default(backend: str) -> None:
    made, params = single("unary", (2,))
    params.type, params.shift = 6, 1  # ABS of scale * x + shift
    assert run(made, backend, [-3, 4])[0].tolist() == [2, 5]
    made, params = single("unary", (1,))
    params.type = 2  # INVERSE, 1 / (x + 1e-6)
    np.testing.assert_allclose(run(made, backend, [0])[0], [1e6], rtol=1e-6)
    made, params = single("lrn", (1, 1, 1, 1))
    params.alpha, params.beta, params.localSize = 3, 1, 1  # x / (k + 3 x^2)
    np.testing.assert_allclose(run(made, backend, [[[[2]]]])[0].item(), 2 / 13, rtol=1e-6)
    made, params = single("sequenceRepeat", (2, 1, 1, 1, 1))
    assert run(made, backend, np.reshape([1, 2], (2, 1, 1, 1, 1)))[0].reshape(-1).tolist() == [1, 2]
    made, params = single("convolution", (1, 2, 1, 1))
    params.outputChannels, params.kernelChannels = 1, 2
    params.kernelSize.extend([1, 1])
    params.valid.SetInParent()
    weights(params.weights, [10, 1])
    assert run(made, backend, np.reshape([1, 2], (1, 2, 1, 1)))[0].item() == 12


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("linear", [0, 0, 0]),
        ("leakyReLU", [0, 0, 2]),
        ("thresholdedReLU", [0, 0, 2]),
        ("scaledTanh", [0, 0, 0]),
        ("sigmoidHard", [0, 0, 0]),
        ("ELU", [0, 0, 2]),
    ],
)
def test_constants_of_activations_may_be_zero(kind: str, expected: list[float], backend: str) -> None:
    made, params = single("activation", (3,))
    getattr(params, kind).SetInParent()
    assert run(made, backend, [-2, 0, 2])[0].tolist() == expected


def test_halves_become_even(backend: str) -> None:
    made, _ = single("round", (6,))
    assert run(made, backend, [-1.5, -0.5, 0.5, 1.5, 2.5, 2.75])[0].tolist() == [-2, 0, 0, 2, 2, 3]


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("modBroadcastable", [1, -2, 2, -1]), ("floorDivBroadcastable", [2, -3, -3, 2])],
)
def test_remainders_have_the_sign_of_the_divisor(kind: str, expected: list[float], backend: str) -> None:
    made, _ = single(kind, (4,), (4,))
    assert run(made, backend, [7, 7, -7, -7], [3, -3, 3, -3])[0].tolist() == expected


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("logicalAnd", [0, 0, 1]),
        ("logicalOr", [0, 1, 1]),
        ("logicalXor", [0, 1, 0]),
    ],
)
def test_numbers_but_0_are_true(kind: str, expected: list[float], backend: str) -> None:
    made, _ = single(kind, (3,), (3,))
    assert run(made, backend, [0, 0.5, -2], [0, 0, 3])[0].tolist() == expected


@pytest.mark.parametrize(
    ("begin", "size", "expected"), [(1, 2, [1, 2]), (-2, 2, [3, 4]), (2, -1, [2, 3, 4]), (-1, 1, [4])]
)
@pytest.mark.parametrize("known", [True, False])
def test_slices_of_fixed_size(
    begin: int, size: int, expected: list[float], known: bool, backend: str
) -> None:
    if known:
        made = model((5,), exact=True)
        constant(made, "begin", [begin])
        layer(made, "sliceBySize", ["x", "begin"]).size = size
        assert run(made, backend, range(5))[0].tolist() == expected
    else:
        made, params = single("sliceBySize", (5,), (1,))
        params.size = size
        assert run(made, backend, range(5), [begin])[0].tolist() == expected
