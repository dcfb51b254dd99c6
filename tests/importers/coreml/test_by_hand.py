"""Parameters that no stored case has, by numbers worked out by hand or by numpy: see test_parameters.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.importers.coreml.builder import Message, floats, run, single

Combine = Callable[[Any, Any], Any]
MODES: list[Combine] = [  # ScatterMode, by number
    lambda old, new: new,
    lambda old, new: old + new,
    lambda old, new: old - new,
    lambda old, new: old * new,
    lambda old, new: old / new,
    max,
    min,
]


def weights(message: Message, values: Any) -> None:
    """Set weights."""
    message.floatValue.append(floats(values))


@pytest.mark.parametrize("mode", range(7))
def test_scattered_slices_and_elements(mode: int, backend: str) -> None:
    """Two updates meet at the last place; they act one after the other."""
    made, params = single("scatterND", (3, 2), (3, 1), (3, 2))
    params.mode = mode
    x = np.array([[8, -6], [4, 10], [3, 5]], np.float32)
    places, updates = [0, 2, -1], np.array([[2, 4], [-4, 2], [0.5, 8]], np.float32)
    expected = x.copy()
    for place, update in zip(places, updates, strict=True):
        expected[place] = [MODES[mode](a, b) for a, b in zip(expected[place], update, strict=True)]
    got = run(made, backend, x, np.reshape(places, (3, 1)), updates)[0]
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("mode", range(7))
@pytest.mark.parametrize("axis", [0, -1])
def test_elements_scattered_along_an_axis(mode: int, axis: int, backend: str) -> None:
    made, params = single("scatterAlongAxis", (3, 2), (2, 2), (2, 2))
    params.mode, params.axis = mode, axis
    x = np.array([[8, -6], [4, 10], [3, 5]], np.float32)
    if axis == -1:
        x = x[:2]
        del made.description.input[0].type.multiArrayType.shape[:]
        made.description.input[0].type.multiArrayType.shape.extend([2, 2])
    places, updates = np.array([[1, 0], [1, -1]]), np.array([[2, 4], [-4, 0.5]], np.float32)
    expected = x.copy()
    for row, column in np.ndindex(2, 2):
        place = [row, column]
        place[axis] = places[row, column]
        at = tuple(place)
        expected[at] = MODES[mode](expected[at], updates[row, column])
    np.testing.assert_array_equal(run(made, backend, x, places, updates)[0], expected)


def test_a_value_at_the_threshold_passes(backend: str) -> None:
    made, params = single("activation", (3,))
    params.thresholdedReLU.alpha = 0.5
    assert run(made, backend, [0.25, 0.5, 0.75])[0].tolist() == [0, 0.5, 0.75]


def test_length_of_a_whole_tensor(backend: str) -> None:
    made, params = single("reduceL2", (2, 2))
    params.reduceAll = True
    assert run(made, backend, [[1, 1], [1, 1]])[0].tolist() == [2]


def test_epsilon_of_layer_normalization(backend: str) -> None:
    """The variance of 0 and 2 is 1; with an epsilon of 3 the root is 2."""
    made, params = single("layerNormalization", (2,))
    params.normalizedShape.append(2)
    params.eps = 3
    weights(params.gamma, [10, 20])
    weights(params.beta, [1, 2])
    assert run(made, backend, [0, 2])[0].tolist() == [-4, 12]


@pytest.mark.parametrize("form", ["float16", "int8", "4 bits", "8 bits"])
def test_slopes_of_prelu_in_all_forms(form: str, backend: str) -> None:
    """Two channels of -1 show the slopes, 2 and 3."""
    made, params = single("activation", (1, 2, 1, 1))
    alpha = params.PReLU.alpha
    if form == "float16":
        alpha.float16Value = np.array([2, 3], "<f2").tobytes()
    elif form == "int8":
        alpha.int8RawValue = np.int8([4, 6]).tobytes()
        alpha.quantization.linearQuantization.scale.append(0.5)
    else:
        bits = int(form[0])
        alpha.rawValue = bytes([0x46]) if bits == 4 else bytes([4, 6])
        alpha.quantization.numberOfBits = bits
        alpha.quantization.linearQuantization.scale.append(0.5)
    y = run(made, backend, np.full((1, 2, 1, 1), -1))[0]
    assert y.reshape(-1).tolist() == [-2, -3]


def test_permute_without_an_order_changes_nothing(backend: str) -> None:
    made, _ = single("permute", (1, 1, 2, 3))
    x = np.arange(6, dtype=np.float32).reshape(1, 1, 2, 3)
    np.testing.assert_array_equal(run(made, backend, x)[0], x)


def test_windows_a_huge_step_apart(backend: str) -> None:
    made, params = single("slidingWindows", (5,))
    params.windowSize, params.step = 2, 2**64 - 1
    np.testing.assert_array_equal(run(made, backend, np.arange(5))[0], [[0, 1]])


@pytest.mark.parametrize(
    ("pixels", "factor", "expected"), [(5, 1.4, 7), (10, 0.7, 7), (10, 1.5, 15), (3, 1.5, 4)]
)
def test_fractions_of_pixels_are_left_out_in_float32(
    pixels: int, factor: float, expected: int, backend: str
) -> None:
    """As float32, 1.4 is below 1.4, but five times that is rounded to 7: PyTorch has as many rows."""
    made, params = single("upsample", (1, 1, pixels, pixels))
    params.fractionalScalingFactor.extend([factor, factor])
    (got,) = run(made, backend, np.ones((1, 1, pixels, pixels)))
    assert got.shape == (1, 1, expected, expected) and np.all(got == 1)
