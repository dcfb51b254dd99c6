"""Rows of stored values whose sums do not fit 32 bits."""

from __future__ import annotations

import numpy as np
import pytest

from gpunn.ops.fixed_point.affine import LIMITS, dequantize
from gpunn.types import Array, DType, Quantization, TensorType
from tests.ops.harness import limit_device
from tests.ops.integer_checks import check_integer, integer_model, litert_integer
from tests.ops.quantized import quantized, stored

OPS = {"softmax": (1 / 256, 0), "log_softmax": (1 / 16, 255), "l2_normalization": (1 / 128, 128)}
EIGHT_BITS = [DType.UINT8, DType.INT8]
LENGTHS = {"softmax": 4096, "log_softmax": 4096, "l2_normalization": 33_026}


def result_of(op: str, dtype: DType) -> Quantization:
    scale, above = OPS[op]
    return Quantization((scale,), (LIMITS[dtype][0] + above,))


def rows(dtype: DType, length: int, scale: float, zero: int) -> tuple[TensorType, Array]:
    """Return random rows; rows of equal values; of one or two high values among low ones; of zeros."""
    type = quantized(dtype, (6, length), scale, zero)
    x, (low, high) = stored(length, type), LIMITS[dtype]
    x[1], x[2], x[3], x[4], x[5] = low, high, low, low, zero
    x[3, 5], x[4, [7, length - 1]] = high, high
    return type, x


def check_rows(op: str, type: TensorType, x: Array, y: Quantization, axis: int, backend: str) -> None:
    """Check that backends agree, and that results are rounded once.

    A hundredth of a step is for the fixed point; l2_normalization first rounds to a sixteenth of a step.
    """
    attrs = {"axis": axis}
    (found,) = check_integer(op, [x], [type], attrs, y, backend=backend)
    operation = integer_model(op, [x], [type], attrs, y).operations[0]
    real = operation.definition.reference(dequantize(x, type).astype(np.float64), axis=axis)
    exact = np.clip(real / y.scale[0] + y.zero_point[0], *LIMITS[type.dtype])
    assert np.abs(found - exact).max() < 0.51 + (op == "l2_normalization") / 32


@pytest.mark.parametrize("dtype", EIGHT_BITS)
@pytest.mark.parametrize("op", OPS)
def test_rows_of_8_bits(op: str, dtype: DType, backend: str) -> None:
    zero = LIMITS[dtype][0] + 30
    for scale in (0.002, 0.05, 0.2):
        type, x = rows(dtype, LENGTHS[op], scale, zero)
        check_rows(op, type, x, result_of(op, dtype), 1, backend)
    type = quantized(dtype, (LENGTHS[op], 3), 0.05, zero)
    check_rows(op, type, stored(1, type), result_of(op, dtype), 0, backend)


@pytest.mark.parametrize("op", OPS)
def test_rows_in_parts(op: str, gpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    limit_device(monkeypatch, max_loop_iterations=40)
    type, x = rows(DType.INT8, LENGTHS[op], 0.05, 3)
    check_rows(op, type, x, result_of(op, DType.INT8), 1, gpu)


def test_softmax_of_16_bits(backend: str) -> None:
    for length, scale in ((2**16, 1e-5), (2**16, 0.01), (70_001, 4e-4)):
        type, x = rows(DType.INT16, length, scale, 0)
        check_rows("softmax", type, x, Quantization((2.0**-15,), (0,)), 1, backend)


def test_sums_beyond_53_bits(gpu: str) -> None:
    """4.2 million exponentials of 1 have a sum of 53 bits; log(2^22 + 5) is 15.25, or 244 steps of 1/16."""
    length = 2**22 + 5
    x = np.full((1, length), 9, np.int8)
    type, y = quantized(DType.INT8, x.shape, 0.1), result_of("log_softmax", DType.INT8)
    (found,) = check_integer("log_softmax", [x], [type], {}, y, backend=gpu)
    assert np.unique(found).tolist() == [127 - 244]


@pytest.mark.parametrize("dtype", EIGHT_BITS)
def test_softmax_is_within_a_step_of_litert(dtype: DType) -> None:
    """LiteRT's default kernels compute in float32."""
    for seed, length in enumerate((4096, 9000, 70_000)):
        x, y = quantized(dtype, (3, length), 0.07, 3), result_of("softmax", dtype)
        values = stored(seed, x)
        values[:, 5] = LIMITS[dtype][1]
        (expected,) = litert_integer(
            "SOFTMAX",
            [values],
            [x],
            [TensorType(dtype, x.shape, y)],
            {"beta": 1.0},
            version=2,
            reference=False,
        )
        (found,) = integer_model("softmax", [values], [x], {}, y).operations[0].evaluate([values])
        assert np.abs(found.astype(int) - expected).max() <= 1
