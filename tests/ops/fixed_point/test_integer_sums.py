"""GPUs add stored values of 8 bits in 32-bit integers where all pairs have the bits of fixed point."""

from __future__ import annotations

import numpy as np
import pytest

from gpunn.backends.webgpu.lower import lower
from gpunn.device import BASELINE
from gpunn.kernel import Kernel
from gpunn.ops.fixed_point.tables import every_value
from gpunn.types import DType
from tests.ops.fixed_point.test_pair_sums import SCALES, operation, written_out
from tests.ops.integer_checks import check_integer

RANDOM = [tuple(np.exp(np.random.default_rng(seed).uniform(-4, 0, 3))) for seed in range(8)]
# Sums of many steps leave few bits to fractions; TFLite takes factors that are close to 0 for 0.
FAR = [(0.5, 0.5, 0.001), (1e-3, 1.0, 2e-3), (1.0, 1.0, 2e4), (0.004, 0.5, 0.01)]
CASES = [*SCALES, *RANDOM, *FAR]


@pytest.mark.sample(2)
@pytest.mark.parametrize("activation", [None, "relu"])
@pytest.mark.parametrize("dtype", [DType.INT8, DType.UINT8])
@pytest.mark.parametrize("op", ["add", "sub"])
@pytest.mark.parametrize("scales", CASES, ids=str)
def test_all_pairs_have_the_bits_of_fixed_point(
    op: str, dtype: DType, scales: tuple[float, ...], activation: str | None, backend: str
) -> None:
    given = operation(op, dtype, scales, activation)
    a, b = (operand.type for operand in given.inputs if operand is not None)
    values = every_value(a).astype(dtype.numpy)
    pairs = [np.repeat(values, 256).reshape(a.shape), np.tile(values, 256).reshape(b.shape)]
    attrs = {} if activation is None else {"activation": activation}
    to = given.outputs[0].type.quantization
    (found,) = check_integer(op, pairs, [a, b], attrs, to, backend=backend)
    known = written_out(given)
    np.testing.assert_array_equal(found[~np.isnan(known)], known[~np.isnan(known)])


@pytest.mark.parametrize("scales", CASES, ids=str)
def test_where_there_are_no_numbers_the_steps_of_fixed_point_remain(scales: tuple[float, ...]) -> None:
    (kernel,) = lower(operation("add", DType.INT8, scales), BASELINE)
    assert isinstance(kernel, Kernel)
    most = (scales[0] + scales[1]) / scales[2]  # steps of the result for a step of both operands
    assert kernel.libraries == (() if 1e-3 < most < 16 else ("affine",))
