"""Attributes and types of a kind that an op does not take are refused when the op is added."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpunn.errors import ModelError
from gpunn.model import Model
from gpunn.ops.op import op
from gpunn.types import DType, Shape, TensorType

PICTURE = (1, 8, 8, 4), (8, 3, 3, 4)


def add(name: Any, shapes: tuple[Shape, ...], attrs: dict[str, Any], *dtypes: DType) -> None:
    model = Model("m")
    types = (*dtypes, *[DType.FLOAT32] * len(shapes))
    inputs = [model.input(f"x{k}", TensorType(types[k], shape)) for k, shape in enumerate(shapes)]
    model.add(name, inputs, attrs)


@pytest.mark.parametrize(
    ("attrs", "message"),
    [
        ({"stride": 2}, "stride must be two numbers of at least 1, got 2"),
        ({"stride": (1.5, 1)}, "stride must be two numbers of at least 1"),
        ({"stride": None}, "stride must be two numbers of at least 1"),
        ({"stride": (1 << 31, 1)}, "stride must be at most 2147483647"),
        ({"dilation": (1 << 40, 1)}, "dilation must be at most 2147483647"),
        ({"dilation": 3}, "dilation must be two numbers of at least 1"),
        ({"padding": 3}, "padding must be 'same', 'valid' or"),
        ({"padding": ((1,), (2,))}, "padding must be 'same', 'valid' or"),
        ({"padding": ((1, 0.5), (2, 0))}, "padding must be 'same', 'valid' or"),
        ({"activation": ["relu"]}, "activation must be one of"),
    ],
    ids=str,
)
def test_windows(attrs: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelError, match=f"conv2d: {message}"):
        add("conv2d", PICTURE, attrs)


def test_a_stride_may_be_an_array() -> None:
    add("conv2d", PICTURE, {"stride": np.array([2, 2])})


@pytest.mark.parametrize(
    ("name", "shapes", "attrs", "message"),
    [
        ("max_pool2d", PICTURE[:1], {"size": 3}, "window size must be two numbers"),
        ("concat", ((2, 3), (2, 3)), {"axis": np.array([1, 2])}, "axis must be an integer"),
        ("bucketize", ((4,),), {"boundaries": ["a"]}, "attributes do not fit .*boundaries="),
        ("fake_quant", ((4,),), {"min": 0, "max": 1e-322}, "attributes do not fit .*max=1e-322"),
        ("mirror_pad", ((4,),), {"mode": ["x"], "paddings": ((1, 1),)}, "attributes do not fit .*mode="),
    ],
)
def test_others(name: str, shapes: tuple[Shape, ...], attrs: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelError, match=f"{name}: {message}"):
        add(name, shapes, attrs)


@pytest.mark.parametrize(
    ("name", "shapes"),
    [
        ("conv2d", PICTURE),
        ("depthwise_conv2d", ((1, 8, 8, 4), (1, 3, 3, 4))),
        ("fully_connected", ((2, 4), (3, 4))),
    ],
)
@pytest.mark.parametrize("dtypes", [(DType.FLOAT32, DType.INT32), (DType.INT32, DType.INT32), (DType.BOOL,)])
def test_products_are_of_reals(name: str, shapes: tuple[Shape, ...], dtypes: tuple[DType, ...]) -> None:
    with pytest.raises(ModelError, match=f"{name}: takes reals or quantised numbers"):
        add(name, shapes, {}, *dtypes)


def test_an_error_of_a_user_s_own_op_stays_what_it_is() -> None:
    def infer(call: Any) -> TensorType:
        raise KeyError("mine")

    @op(infer)
    def own(x: Any) -> Any:
        return x

    with pytest.raises(KeyError, match="mine"):
        add(own, ((2,),), {})
