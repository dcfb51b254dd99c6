"""Conversion between element types, of values and of bits."""

from __future__ import annotations

import numpy as np
import pytest

from gpunn.errors import ModelError
from gpunn.model import Model
from gpunn.ops.memory import BLOCK
from gpunn.types import Array, DType, float32
from tests.ops.harness import check, check_litert, model_of, random, type_of
from tests.ops.integer_checks import check_integer
from tests.ops.quantized import quantized, stored

REALS = np.array(
    [
        *(np.nan, np.inf, -np.inf, 0, -0.0, 1.9, -1.9, 0.3, 1e-30),
        *(127.5, 128, -128.9, -129, 255.7, 256, 300, 16_777_217),
        *(2147483520, 2147483648, -2147483648, -3e9, 3e38),
    ],
    np.float32,
)
WHOLE = np.array([0, 1, -1, 127, 128, -129, 255, 256, 77, 16_777_217, 2**31 - 1, -(2**31)], np.int32)
ON_DEVICE = (DType.FLOAT32, DType.INT64, DType.INT32, DType.INT16, DType.UINT8, DType.INT8, DType.BOOL)


def values(dtype: DType) -> Array:
    return REALS if dtype is DType.FLOAT32 else WHOLE.astype(dtype.numpy)


@pytest.mark.parametrize("target", ON_DEVICE, ids=lambda d: d.value)
@pytest.mark.parametrize("source", ON_DEVICE, ids=lambda d: d.value)
def test_every_pair(source: DType, target: DType, backend: str) -> None:
    x = values(source)
    for shaped in (x, x[:8].reshape(2, 1, 4), x[:7], x[:0]):
        check("cast", [shaped], {"dtype": target.value}, backend=backend)


def test_reals_are_truncated_and_kept_in_range(backend: str) -> None:
    (y,) = check("cast", [REALS], {"dtype": "int32"}, backend=backend)
    assert y.tolist()[:7] == [0, 2**31 - 1, -(2**31), 0, 0, 1, -1]
    assert y.tolist()[-5:] == [2147483520, 2**31 - 1, -(2**31), -(2**31), 2**31 - 1]
    (y,) = check("cast", [REALS], {"dtype": "bool"}, backend=backend)
    assert y.tolist()[:5] == [True, True, True, False, False]


@pytest.mark.parametrize("target", ["int32", "int64", "uint8", "int8", "int16"])
def test_blocks_with_and_without_numbers_out_of_range(target: str) -> None:
    x = random(0, 3, BLOCK, low=0, high=127.9)  # all within
    x[1, 7], x[2, 5], x[2, 9] = np.nan, 1e20, -0.99
    check("cast", [x], {"dtype": target}, backend="cpu")
    check("cast", [np.array([2**31, -(2**31)], np.float32)], {"dtype": target}, backend="cpu")


def test_the_widest_integers(backend: str) -> None:
    powers = [s * (2**k + d) for k in range(23, 63) for d in (-1, 0, 1, 2 ** (k - 23)) for s in (1, -1)]
    x = np.array([*powers, 2**63 - 1, -(2**63)], np.int64)
    for target in ON_DEVICE:  # the nearest float32, of two the even one
        check("cast", [x], {"dtype": target.value}, backend=backend, atol=0, rtol=0)


def test_the_largest_integers_stay(backend: str) -> None:
    ends = np.array([np.inf, -np.inf, 9.3e18, -9.3e18], np.float32)
    (y,) = check("cast", [ends], {"dtype": "int64"}, backend=backend)
    assert y.tolist() == [2**63 - 1, -(2**63)] * 2


def test_quantised_tensors_are_cast_as_stored(backend: str) -> None:
    type = quantized(DType.UINT8, (3, 5), 0.1, 7)
    x = stored(1, type)
    (y,) = check_integer("cast", [x], [type], {"dtype": "float32"}, backend=backend)
    np.testing.assert_array_equal(y, x.astype(np.float32))


@pytest.mark.parametrize("target", ["int32", "int64", "float32", "bool"])
def test_agrees_with_litert(target: str) -> None:
    for x in (random(0, 3, 5, low=-99, high=99), WHOLE, WHOLE > 0):
        check_litert("cast", [x], {"dtype": target}, "CAST")


BITS = np.random.default_rng(3).integers(0, 256, (3, 2, 8), np.uint8)


@pytest.mark.parametrize("target", ON_DEVICE[:-1], ids=lambda d: d.value)
@pytest.mark.parametrize("source", ON_DEVICE[:-1], ids=lambda d: d.value)
def test_bits_of_every_pair(source: DType, target: DType, backend: str) -> None:
    """Of what is computed, so that the bits lie on the device, where these types have a form."""
    ratio = max(source.itemsize, target.itemsize) // source.itemsize
    bits = BITS[..., : source.itemsize * ratio].copy().view(source.numpy)
    bits = bits if ratio > 1 else bits[..., 0]
    model = Model()
    x = model.input("x", type_of(bits))
    (turned,) = model.add("transpose", [x], {"perm": (1, 0, *range(2, bits.ndim))})
    (bare,) = model.add("bitcast", [turned], {"dtype": target.value})
    model.output(bare, *model.add("reshape", [bare], {"shape": (-1,)}))
    with model.compile(backend=backend) as compilation:
        y, flat = compilation(bits)
    assert y.shape[:2] == (2, 3)
    assert y.tobytes() == flat.tobytes() == np.ascontiguousarray(bits.swapaxes(0, 1)).tobytes()


def test_halves_of_bits_are_not_widened(backend: str) -> None:
    """The bytes of two float16 numbers are those of one float32."""
    halves = random(1, 3, 2).astype(np.float16)
    with model_of("bitcast", [halves], {"dtype": "float32"}).compile(backend=backend) as compilation:
        assert compilation(halves).tobytes() == halves.tobytes()


def test_bits_stay_where_reals_may_be_relaxed(gpu: str) -> None:
    """A real whose bits are read is not stored in half of them."""
    model = Model()
    x = model.input("x", float32(3, 5))
    model.output(*model.add("bitcast", model.add("neg", [x]), {"dtype": "int32"}))
    value = random(2, 3, 5)
    with model.compile(backend="webgpu", relaxed=True) as compilation:
        np.testing.assert_array_equal(compilation(value), (-value).view(np.int32))


def test_errors() -> None:
    for dtype in ("complex128", "string", None):
        with pytest.raises(ModelError, match=r"cast: dtype must be one of float32, .*, got"):
            model_of("cast", [REALS], {"dtype": dtype})
    with pytest.raises(ModelError, match="bitcast: bits are no truths"):
        model_of("bitcast", [REALS], {"dtype": "bool"})
    with pytest.raises(ModelError, match=r"bitcast: the last dimension must be 8, got uint8\[2\]"):
        model_of("bitcast", [np.zeros(2, np.uint8)], {"dtype": "int64"})
