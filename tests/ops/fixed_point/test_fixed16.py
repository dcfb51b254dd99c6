"""16-bit logistic and tanh against the functions themselves; test_state_integer.py has their bits."""

from __future__ import annotations

import numpy as np
import pytest

from gpunn.ops.fixed_point.fixed16 import ONE, logistic, tanh

NUMBERS = np.arange(-(2**15), 2**15)
# About ten products are rounded by half a step of 2^-15 each, and what Newton's method leaves is then shifted
# to the left, by one bit for the logistic, by two for tanh.
LOGISTIC, TANH = 2 * 5, 4 * 5


def test_logistic() -> None:
    found = logistic(NUMBERS)
    exact = 2**15 / (1 + np.exp(-NUMBERS / 2**12))
    assert np.abs(found - exact).max() <= LOGISTIC
    assert (found.min() >= 0, found.max() <= ONE, found[2**15]) == (True, True, 2**14)
    np.testing.assert_array_equal(found[1:] + found[:0:-1], np.where(NUMBERS[1:] == 0, 2**15, ONE))


@pytest.mark.parametrize("bits", range(7))
def test_tanh(bits: int) -> None:
    found = tanh(NUMBERS, bits)
    assert np.abs(found - 2**15 * np.tanh(NUMBERS / 2 ** (15 - bits))).max() <= TANH
    np.testing.assert_array_equal(found[1:], -found[:0:-1])
    assert found[2**15] == 0
