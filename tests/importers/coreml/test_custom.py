"""Custom layers of .mlmodel files: ops of the user's by class, with parameters and weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import gpunn
from gpunn import CustomOperator
from gpunn.custom import Call, Kernel, Op, like, op
from gpunn.ops.elementwise.unary_kernel import elementwise
from gpunn.types import Array, DType, TensorType
from tests.importers.coreml.builder import Message, assign, floats, layer, model

X = np.array([1, 2, 3], np.float32)


@op(like)
def scaled(x: Array, *, gain: float = 1.0, shift: int = 0, name: str = "", on: bool = True) -> Array:
    """gain * x + shift + len(name), and 1000 more if it is not on."""
    y = x * x.dtype.type(gain) + x.dtype.type(shift) + len(name) + (0 if on else 1000)
    return np.asarray(y, x.dtype)


@op(like)
def with_sums(x: Array, *weights: Array) -> Array:
    """x, and the sums of all weights added."""
    return np.asarray(x + sum(w.sum() for w in weights), x.dtype)


def _tripled_kernel(call: Call) -> Kernel:
    return elementwise(call, "3.0 * x", {})


@op(like, _tripled_kernel)
def tripled(x: Array) -> Array:
    """3 * x."""
    return np.asarray(3 * x)


def _halves(call: Call) -> tuple[TensorType, TensorType]:
    return call.x, TensorType(DType.INT32, call.x.shape)


@op(_halves)
def rounded(x: Array) -> tuple[Array, Array]:
    """What floor() leaves, and the integers."""
    return x - np.floor(x), np.floor(x).astype(np.int32)


def custom_model(outputs: tuple[str, ...] = ("y",), **parameters: Any) -> Message:
    """A specification with one custom layer."""
    made = model((3,), exact=True)
    params = layer(made, "custom", ["x"], outputs)
    params.className = "Mine"
    fields = {float: "doubleValue", str: "stringValue", int: "intValue", bool: "boolValue"}
    for key, value in parameters.items():
        setattr(params.parameters.add(key=key).value, fields[type(value)], value)
    return made


def load(made: Message, custom: Op | CustomOperator) -> gpunn.Model:
    """The model with a meaning for its class."""
    operator = custom if isinstance(custom, CustomOperator) else CustomOperator(custom)
    return gpunn.load(made.SerializeToString(), custom={"Mine": operator})


def give(loaded: gpunn.Model, backend: str) -> Any:
    """The output for X."""
    with loaded.compile(backend) as compiled:
        return compiled(X)


def test_parameters_are_attributes(backend: str) -> None:
    made = custom_model(gain=2.0, shift=10, name="abc", on=False)
    assert give(load(made, scaled), backend).tolist() == [1015, 1017, 1019]


def test_weights_are_operands(backend: str) -> None:
    made = custom_model()
    weights = made.neuralNetwork.layers[0].custom.weights
    weights.add().floatValue.append(floats([1, 2]))
    weights.add().float16Value = np.array([4], "<f2").tobytes()
    quantised = weights.add()
    quantised.rawValue = bytes([3, 5])
    quantised.quantization.numberOfBits = 8
    quantised.quantization.linearQuantization.scale.extend([10, 100])
    assert give(load(made, with_sums), backend).tolist() == [538, 539, 540]  # 1 + 2 + 4 + 30 + 500


def test_an_op_with_a_kernel_runs_on_the_gpu(backend: str) -> None:
    with load(custom_model(), tripled).compile(backend) as compiled:
        assert compiled(X).tolist() == [3, 6, 9]
        assert {p.operation.op: p.backend for p in compiled.placement}["tripled"] == backend


def test_several_results_and_integers() -> None:
    made = custom_model(("part", "whole"))
    layer(made, "addBroadcastable", ["part", "whole"], ["y"])
    loaded = load(made, rounded)
    with loaded.compile("cpu") as compiled:
        assert compiled(np.array([1.25, -0.5, 7], np.float32)).tolist() == [1.25, -0.5, 7]


def test_parameters_may_be_read_in_another_way(backend: str) -> None:
    def read(parameters: Mapping[str, object]) -> Mapping[str, object]:
        return {"gain": float(str(parameters["alpha"]))}

    loaded = load(custom_model(alpha="4"), CustomOperator(scaled, parameters=read))
    assert give(loaded, backend).tolist() == [4, 8, 12]
    with pytest.raises(gpunn.FormatError, match="custom: the parameters cannot be read: 'alpha'"):
        load(custom_model(), CustomOperator(scaled, parameters=read))
    with pytest.raises(gpunn.FormatError, match="the parameters cannot be read: could not convert"):
        load(custom_model(alpha="x"), CustomOperator(scaled, parameters=read))


def test_in_a_loop_and_on_open_shapes(backend: str) -> None:
    made = model((1,), exact=True)
    layer(made, "copy", ["x"], ["z"])
    body = layer(made, "loop", ["x"], []).bodyNetwork
    layer(body, "custom", ["z"], ["more"]).className = "Mine"
    layer(body, "concatND", ["more", "x"], ["longer"])
    layer(body, "copy", ["longer"], ["z"])
    assign(made, "z", "y", 1)
    with load(made, tripled).compile(backend) as compiled:
        assert compiled(np.array([2], np.float32)).tolist() == [18, 6, 2]


def test_what_nobody_explains_is_refused_by_its_class() -> None:
    data = custom_model().SerializeToString()
    for custom in (None, {}, {"Other": CustomOperator(tripled)}):
        with pytest.raises(
            gpunn.UnsupportedError, match=r"custom: its class 'Mine' has no meaning, gpunn\.load"
        ):
            gpunn.load(data, custom=custom)


@pytest.mark.parametrize("key", ["op", "self", "inputs", "size", "k" * 200, "a\nb"])
def test_parameters_that_the_op_does_not_have(key: str) -> None:
    made = custom_model()
    made.neuralNetwork.layers[0].custom.parameters.add(key=key).value.doubleValue = 1
    with pytest.raises(gpunn.FormatError, match=f"has no attribute {key}$|the name of one is"):
        load(made, scaled)


def test_too_many_parameters() -> None:
    made = custom_model(**{f"p{k}": k for k in range(300)})
    with pytest.raises(gpunn.FormatError, match="there are 300, expected up to 256"):
        load(made, scaled)


def test_damaged_weights() -> None:
    made = custom_model()
    made.neuralNetwork.layers[0].custom.weights.add().float16Value = b"abc"
    with pytest.raises(
        gpunn.FormatError, match="weights 0: weights have bytes that are no whole number of float16"
    ):
        load(made, scaled)
