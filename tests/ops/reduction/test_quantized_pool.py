"""Quantised average and max pools: exact integers, the GPU's bits, LiteRT's bits."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from gpunn.errors import ModelError
from gpunn.ops.reduction.pool import rounded_real_mean
from gpunn.types import Array, DType, Quantization, TensorType
from tests.ops.integer_checks import check_integer, integer_model, litert_integer
from tests.ops.quantized import quantized, stored

POOLS = ["average_pool2d", "max_pool2d"]
DTYPES = [DType.UINT8, DType.INT8]
ATTRS: list[dict[str, Any]] = [
    {"size": (2, 3)},
    {"size": (3, 3), "stride": (2, 2), "padding": "same", "activation": "relu"},
    {"size": (2, 2), "stride": (2, 1), "padding": "same", "activation": "relu6"},
    {"size": (3, 4), "stride": (1, 2), "padding": ((1, 2), (0, 3)), "activation": "relu1"},
    {"size": (7, 9)},
]


def zero_point(dtype: DType) -> int:
    """Return a zero point inside the range."""
    return 100 if dtype is DType.UINT8 else -20


def expected(op: str, x: Array, attrs: dict[str, Any]) -> Array:
    """Compute a pool of stride 1 in Python's integers, without activation and padding."""
    views = np.lib.stride_tricks.sliding_window_view(x.astype(np.int64), attrs["size"], (1, 2))
    if op == "max_pool2d":
        return np.asarray(views.max((-1, -2)))
    sums, count = views.sum((-1, -2)), int(np.prod(attrs["size"]))

    def nearest(total: int) -> int:
        magnitude = (Fraction(abs(total), count) + Fraction(1, 2)).__floor__()
        return magnitude if total >= 0 else -magnitude

    return np.asarray([nearest(int(s)) for s in sums.reshape(-1)]).reshape(sums.shape)


@pytest.mark.parametrize("count", [1, 2, 3, 7, 9, 49, 64, 225, 509])
def test_means_in_float32_are_exact(count: int) -> None:
    """Sums next to halves and to whole numbers, up to those of the widest 16-bit windows in float32."""
    wholes = np.unique(np.geomspace(1, 2**15 - 1, 500).astype(np.int64)) * count
    near = [wholes + d for d in (-1, 0, 1)] + [wholes - count // 2 + d for d in (-1, 0, 1)]
    sums = np.concatenate([*near, np.arange(-600, 601)])
    sums = np.concatenate([sums, -sums])
    expected = [(-1 if s < 0 else 1) * ((2 * abs(s) + count) // (2 * count)) for s in sums.tolist()]
    found = rounded_real_mean(sums.astype(np.float32), np.float32([count]))
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("attrs", ATTRS, ids=str)
@pytest.mark.parametrize("channels", [3, 4, 8])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("op", POOLS)
def test_the_gpu_gives_the_references_bits(
    gpu: str, op: str, dtype: DType, channels: int, attrs: dict[str, Any]
) -> None:
    type = quantized(dtype, (2, 7, 9, channels), 0.04, zero_point(dtype))
    check_integer(op, [stored(channels, type)], [type], attrs, backend=gpu)


@pytest.mark.parametrize("attrs", [*ATTRS, {"size": (5, 6), "padding": "same"}], ids=str)
@pytest.mark.parametrize("dtype", [*DTYPES, DType.INT16])
@pytest.mark.parametrize("op", POOLS)
def test_many_results(gpu: str, op: str, dtype: DType, attrs: dict[str, Any]) -> None:
    """An invocation computes several of them."""
    for channels in (3, 8):
        type = quantized(dtype, (2, 31, 33, channels), 0.04, 0 if dtype is DType.INT16 else zero_point(dtype))
        check_integer(op, [stored(channels, type)], [type], attrs, backend=gpu)


@pytest.mark.parametrize("dtype", [*DTYPES, DType.INT16])
@pytest.mark.parametrize("op", POOLS)
def test_integers_without_a_scale(backend: str, op: str, dtype: DType) -> None:
    type = TensorType(dtype, (2, 7, 9, 5))
    x = stored(3, type)
    (result,) = check_integer(op, [x], [type], ATTRS[0], backend=backend)
    assert np.array_equal(result, expected(op, x, ATTRS[0]))
    with pytest.raises(ModelError, match="needs one scale and zero point"):
        integer_model(op, [x], [type], ATTRS[1])


@pytest.mark.parametrize("attrs", [ATTRS[0], ATTRS[4]], ids=str)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("op", POOLS)
def test_the_reference_is_exact(op: str, dtype: DType, attrs: dict[str, Any]) -> None:
    type = quantized(dtype, (2, 7, 9, 5), 0.04, zero_point(dtype))
    x = stored(1, type)
    (result,) = check_integer(op, [x], [type], attrs, backend="cpu")
    assert np.array_equal(result, expected(op, x, attrs))


@pytest.mark.parametrize("attrs", [*ATTRS[:3], {"size": (9, 10), "activation": "relu"}], ids=str)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("op", POOLS)
def test_litert_has_the_same_bits(op: str, dtype: DType, attrs: dict[str, Any]) -> None:
    type = quantized(dtype, (3, 9, 10, 5), 0.04, zero_point(dtype))
    x = stored(2, type)
    operation = integer_model(op, [x], [type], attrs).operations[0]
    (sy, sx), (height, width) = attrs.get("stride", (1, 1)), attrs["size"]
    options = {"stride_h": sy, "stride_w": sx, "filter_height": height, "filter_width": width}
    options["padding"] = attrs.get("padding", "valid").upper()
    options["fused_activation_function"] = attrs.get("activation", "none").upper()
    operator = op.upper().replace("POOL2D", "POOL_2D")
    for reference in (True, False):
        (theirs,) = litert_integer(
            operator,
            [x],
            [type],
            [operation.outputs[0].type],
            options,
            version=2 if dtype is DType.INT8 else 1,
            reference=reference,
        )
        assert np.array_equal(operation.evaluate([x])[0], theirs)


@pytest.mark.parametrize("op", POOLS)
def test_an_empty_batch_gives_an_empty_result(backend: str, op: str) -> None:
    type = quantized(DType.UINT8, (0, 5, 5, 4), 0.5)
    (result,) = check_integer(op, [stored(0, type)], [type], {"size": (2, 2)}, backend=backend)
    assert result.shape == (0, 4, 4, 4)


@pytest.mark.parametrize("op", POOLS)
def test_the_result_is_quantised_as_the_input(op: str) -> None:
    type = quantized(DType.UINT8, (1, 4, 4, 4), 0.5)
    with pytest.raises(ModelError, match="must be quantised as the input"):
        integer_model(op, [stored(0, type)], [type], {"size": (2, 2)}, Quantization((0.25,), (0,)))


def test_an_l2_pool_is_computed_on_reals(backend: str) -> None:
    type = quantized(DType.UINT8, (1, 3, 3, 4), 0.5, 10)
    x = stored(0, type)
    (result,) = check_integer(
        "l2_pool2d", [x], [type], {"size": (3, 3)}, backend=backend, host="for quantised tensors"
    )
    real = np.sqrt(np.mean(np.square((x - 10.0) * 0.5), axis=(1, 2)))
    assert np.abs(result.reshape(real.shape) - np.clip(real / 0.5 + 10, 0, 255)).max() <= 1


def test_sums_of_large_windows_do_not_wrap_around(gpu: str) -> None:
    """66,049 times 32,767 takes more than 31 bits: worked by hand, the mean is 32,767."""
    x = np.full((1, 257, 257, 1), 32767, np.int16)
    type = TensorType(DType.INT16, x.shape, Quantization((0.5,), (0,)))
    attrs = {"size": (257, 257)}
    (result,) = check_integer(
        "average_pool2d", [x], [type], attrs, type.quantization, backend=gpu, host="32 bits"
    )
    assert result.item() == 32767
