"""What callers may give as an input: any numbers, unless converting them would change a value."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from PIL import Image

import gpunn
from gpunn.errors import DeviceError, ModelError
from gpunn.graph.operation import Lifetime, Operand
from gpunn.graph.reshape import as_input
from gpunn.model import Model
from gpunn.types import Array, DType, TensorType


def converted(value: Any, dtype: DType = DType.FLOAT32) -> Array:
    """The array that a value becomes as an input of any shape."""
    shape = np.shape(value)
    found = as_input(Operand("x", TensorType(dtype, shape), Lifetime.INPUT), value)
    assert found.dtype == dtype.numpy and found.flags.c_contiguous and found.shape == shape
    return found


class Foreign:
    """An array of another library."""

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.array([1, 2], np.float32)


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        ([1, 2.5], DType.FLOAT32),
        ([0.1, float("nan"), float("inf")], DType.FLOAT32),
        (3, DType.FLOAT32),
        ([1, 2], DType.INT32),
        ([True, False], DType.BOOL),
        (np.array([1, 2**24], np.int64), DType.FLOAT32),
        (np.array([0, 255], np.int64), DType.UINT8),
        (np.array([1.5, np.nan, -np.inf]), DType.FLOAT32),
        (np.array([2.0, -3.0], np.float32), DType.INT32),
        (np.float16([1.5, 65504]), DType.FLOAT32),
        (np.arange(6, dtype=np.uint8).reshape(2, 3), DType.FLOAT32),
        (np.arange(12, dtype=np.float32).reshape(2, 2, 3).T, DType.FLOAT32),
        (memoryview(b"ab"), DType.UINT8),
        ([[[[0.1], [2]]]], DType.FLOAT32),
        (range(3), DType.INT64),
    ],
)
def test_values_that_survive_are_converted(value: Any, dtype: DType) -> None:
    np.testing.assert_array_equal(converted(value, dtype), np.asarray(value, dtype.numpy))


def test_arrays_of_other_libraries() -> None:
    operand = Operand("x", TensorType(DType.FLOAT32, (2,)), Lifetime.INPUT)
    assert as_input(operand, Foreign()).tolist() == [1, 2]


@pytest.mark.parametrize(
    ("value", "dtype", "reason"),
    [
        (np.array([0.1]), DType.FLOAT32, "must be float32, got float64, whose values it cannot hold"),
        (np.array([2**24 + 1]), DType.FLOAT32, "got int64, whose values it cannot hold"),
        ([2**24 + 1], DType.FLOAT32, "whose values it cannot hold"),
        ([1e39], DType.FLOAT32, "whose values it cannot hold"),
        ([1.5], DType.INT32, "must be int32, got float64, whose values"),
        ([256], DType.UINT8, "must be uint8, got int64, whose values"),
        ([float("nan")], DType.INT32, "whose values it cannot hold"),
        ([True], DType.FLOAT32, "must be float32, got bool"),
        ([1], DType.BOOL, "must be bool, got int64"),
        ([1j], DType.FLOAT32, "must be float32, got complex128"),
        (["a"], DType.FLOAT32, "must be float32, got <U1"),
        (np.zeros((1, 4, 4, 3), np.uint8), DType.FLOAT32, r"got uint8; gpunn\.vision\.preprocess\(\) scales"),
        (np.zeros((4, 4, 3), np.uint8), DType.FLOAT32, r"got uint8; gpunn\.vision\.preprocess\(\) scales"),
        (np.zeros((1, 4, 4, 3)), DType.FLOAT32, r"got float64; .* astype\('float32'\) converts other"),
    ],
)
def test_values_that_would_change_are_refused(value: Any, dtype: DType, reason: str) -> None:
    with pytest.raises(ModelError, match=f"input 'x' .*{reason}"):
        converted(value, dtype)


def test_what_is_no_array_is_refused() -> None:
    operand = Operand("x", TensorType(DType.FLOAT32, (2, 2)), Lifetime.INPUT)
    with pytest.raises(ModelError, match="input 'x' cannot be made an array: "):
        as_input(operand, [[1, 2], [3]])


@pytest.mark.parametrize("error", [RuntimeError, DeviceError])
def test_arrays_of_others_may_refuse_to_become_one(error: type[RuntimeError]) -> None:
    """As tensors of PyTorch do that record gradients; an error of gpunn's stays what it is."""

    class Other:
        def __array__(self, dtype: object = None, copy: object = None) -> Array:
            raise error("it records gradients")

    operand = Operand("x", TensorType(DType.FLOAT32, (2, 2)), Lifetime.INPUT)
    with pytest.raises(DeviceError if error is DeviceError else ModelError, match="it records gradients"):
        as_input(operand, Other())


def test_pictures_reach_a_classifier_by_preprocess() -> None:
    model = gpunn.load(gpunn.vision.default_model())
    pixels = np.full((40, 50, 3), 255, np.uint8)
    with model.compile("cpu") as compiled:
        with pytest.raises(ModelError, match="preprocess"):
            compiled(pixels[np.newaxis, :32, :32])
        x = gpunn.vision.preprocess(model, Image.fromarray(pixels))
        assert (x.shape, x.dtype, x.min(), x.max()) == ((1, 32, 32, 3), np.float32, 1, 1)
        compiled(x)


@pytest.mark.parametrize(
    ("value", "type", "expected"),
    [
        ([1.5, 0.1], None, np.float32([1.5, 0.1])),
        ([[1, 2]], None, np.int32([[1, 2]])),
        (3, None, np.int32(3)),
        ([True, False], None, np.array([True, False])),
        ([1, 2], DType.FLOAT32, np.float32([1, 2])),
        ((1.0, 2.0), DType.INT64, np.int64([1, 2])),
        (["a", "b"], DType.STRING, np.array([b"a", b"b"], object)),
    ],
)
def test_constants_are_what_numpy_makes_an_array_of(value: Any, type: DType | None, expected: Array) -> None:
    stated = None if type is None else TensorType(type, np.shape(value))
    constant = Model().constant("c", value, stated)
    assert constant.value is not None
    assert constant.value.dtype == expected.dtype
    np.testing.assert_array_equal(constant.value, expected)


@pytest.mark.parametrize(
    ("value", "type", "message"),
    [
        ([1, 2**40], None, "constant 'c' has values that int32 cannot hold"),
        ([0.5], DType.INT32, "constant 'c' has values that int32 cannot hold"),
        ([1e300], None, "constant 'c' has values that float32 cannot hold"),
        ([300], DType.UINT8, "constant 'c' has values that uint8 cannot hold"),
        ([[1], [1, 2]], None, "constant 'c' cannot be made an array"),
        (["a"], None, "there are no tensors of str"),
        ([1, 2], TensorType(DType.INT32, (3,)), "constant 'c' should be int32"),
    ],
)
def test_other_constants_are_refused(value: Any, type: Any, message: str) -> None:
    stated = TensorType(type, np.shape(value)) if isinstance(type, DType) else type
    with pytest.raises(ModelError, match=re.escape(message)):
        Model().constant("c", value, stated)
