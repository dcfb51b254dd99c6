"""GPUs multiply stored values of 8 bits in 32-bit integers where all pairs have the bits of fixed point."""

from __future__ import annotations

import numpy as np
import pytest

from gpunn.backends.webgpu.lower import lower
from gpunn.device import BASELINE
from gpunn.kernel import Kernel
from gpunn.ops.fixed_point.tables import every_value
from gpunn.types import DType
from tests.ops.fixed_point.test_pair_sums import operation
from tests.ops.integer_checks import check_integer

# Of gates, normalisations and attention: the result spans about what the products span. Then others.
USUAL = [(0.0235, 1 / 256, 0.0235), (0.1, 0.01, 0.25), (0.004, 0.125, 0.125), (0.05, 0.03, 0.06)]
RANDOM = [tuple(np.exp(np.random.default_rng(seed).uniform(-4, 0, 3))) for seed in range(8)]
# Halves, of which fixed point rounds those below zero down; results that never move; results at the ends.
EVEN = [(1.0, 0.5, 1.0), (1.0, 1 / 256, 1.0), (0.25, 0.25, 1.0), (1.0, 1.0, 1.0)]
FAR = [(1e-3, 1e-3, 1.0), (1.0, 1.0, 0.03), (1e-5, 1e-3, 10.0)]
NONE = [(1.0, 1.0, 1e-3)]
CASES = [*USUAL, *RANDOM, *EVEN, *FAR, *NONE]


@pytest.mark.sample(2)
@pytest.mark.parametrize("activation", [None, "relu"])
@pytest.mark.parametrize("dtype", [DType.INT8, DType.UINT8])
@pytest.mark.parametrize("scales", CASES, ids=str)
def test_all_pairs_have_the_bits_of_fixed_point(
    dtype: DType, scales: tuple[float, ...], activation: str | None, backend: str
) -> None:
    given = operation("mul", dtype, scales, activation)
    a, b = (operand.type for operand in given.inputs if operand is not None)
    values = every_value(a).astype(dtype.numpy)
    pairs = [np.repeat(values, 256).reshape(a.shape), np.tile(values, 256).reshape(b.shape)]
    attrs = {} if activation is None else {"activation": activation}
    check_integer("mul", pairs, [a, b], attrs, given.outputs[0].type.quantization, backend=backend)


@pytest.mark.parametrize("scales", CASES, ids=str)
def test_where_there_are_no_numbers_the_steps_of_fixed_point_remain(scales: tuple[float, ...]) -> None:
    (kernel,) = lower(operation("mul", DType.INT8, scales), BASELINE)
    assert isinstance(kernel, Kernel)
    factor = scales[0] * scales[1] / scales[2]  # steps of the result for a product of a step of each
    assert kernel.libraries == (() if factor < 1.6 else ("affine",))
