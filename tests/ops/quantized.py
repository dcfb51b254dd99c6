"""Checks of integer arithmetic, by three comparisons.

The GPU gives the reference's bits; the reference lies within a step of the real result; and LiteRT's kernels
give the same bits, unless docs/quantized.md names a difference.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from gpunn.model import Model
from gpunn.ops.fixed_point.affine import LIMITS, dequantize
from gpunn.types import Array, DType, Quantization, TensorType
from tests.tflite_builder import Graph, litert_run

DTYPES = (DType.UINT8, DType.INT8)
SEEDS = range(6)
both = pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: d.value)
every_width = pytest.mark.parametrize("dtype", (*DTYPES, DType.INT16), ids=lambda d: d.value)
seeds = pytest.mark.parametrize("seed", SEEDS)


def quantized(dtype: DType, shape: Sequence[int], scale: float, zero_point: int = 0) -> TensorType:
    """Return a tensor type with one scale and zero point; the scale is rounded to float32, as in files."""
    return TensorType(dtype, tuple(shape), Quantization((float(np.float32(scale)),), (zero_point,)))


def stored(seed: int, type: TensorType, low: int | None = None, high: int | None = None) -> Array:
    """Return random stored integers, of the type's whole range or between low and high, ends included."""
    first, last = LIMITS[type.dtype]
    values = np.random.default_rng(seed).integers(
        first if low is None else low, last if high is None else high, type.shape, endpoint=True
    )
    return values.astype(type.dtype.numpy)


def integer_model(
    op: str,
    inputs: Sequence[Array | None],
    types: Sequence[TensorType | None],
    attrs: Mapping[str, Any] | None = None,
    output_quantization: Quantization | Sequence[Quantization | None] | None = None,
    constants: Sequence[int] = (),
) -> Model:
    """Return a model of one operation on quantised tensors; inputs at positions `constants` are constants.

    output_quantization: of the only output, or of each output; None: as the op infers it.
    """
    model = Model(op)
    operands = [
        None
        if value is None or type is None
        else model.constant(f"constant_{k}", value, type)
        if k in constants
        else model.input(f"input_{k}", type)
        for k, (value, type) in enumerate(zip(inputs, types, strict=True))
    ]
    if output_quantization is None:
        wanted: Sequence[Quantization | None] = ()
    elif isinstance(output_quantization, Quantization):
        wanted = (output_quantization,)
    else:
        wanted = output_quantization
    model.output(*model.add(op, operands, attrs or {}, quantization=wanted))
    return model


def check_integer(
    op: str,
    inputs: Sequence[Array | None],
    types: Sequence[TensorType | None],
    attrs: Mapping[str, Any] | None = None,
    output_quantization: Quantization | Sequence[Quantization | None] | None = None,
    constants: Sequence[int] = (),
    *,
    backend: str,
    host: str = "",
) -> tuple[Array, ...]:
    """Run one operation; assert that it has the bits of its integer reference; return the results.

    host: part of the reason why the operation has no GPU kernel; without it, running anywhere else than
    on the GPU is an error when backend is "webgpu".
    """
    model = integer_model(op, inputs, types, attrs, output_quantization, constants)
    operation = model.operations[0]
    expected = operation.evaluate(inputs)
    fed = [v for k, v in enumerate(inputs) if v is not None and k not in constants]
    with model.compile(backend=backend) as compilation:
        for placement in compilation.placement:
            if backend == "webgpu" and placement.backend != "alias":
                assert (placement.backend == "cpu") == bool(host), placement.reason
                assert host in placement.reason
        found = compilation(*fed)
    results = found if isinstance(found, tuple) else (found,)
    what = f"{op}{[v if v is None else v.shape for v in inputs]} {attrs} {types} {output_quantization}"
    for result, wanted, operand in zip(results, expected, operation.outputs, strict=True):
        assert wanted.dtype == operand.type.dtype.numpy, what
        assert wanted.shape == result.shape == operand.type.shape, what
        np.testing.assert_array_equal(result, wanted, err_msg=what)
    return results


def litert_integer(
    operator: str,
    inputs: Sequence[Array | None],
    types: Sequence[TensorType | None],
    outputs: Sequence[TensorType],
    options: Mapping[str, Any] | None = None,
    *,
    constants: Sequence[int] = (),
    version: int = 1,
    reference: bool = True,
) -> list[Array]:
    """Return what LiteRT computes for an operator on quantised tensors, by its reference or its fast kernels.

    Skips the test if ai-edge-litert is not installed.
    """
    pytest.importorskip("ai_edge_litert", reason="ai-edge-litert, the independent oracle, is not installed")
    graph = Graph()
    numbers = []
    for k, (value, type) in enumerate(zip(inputs, types, strict=True)):
        if value is None or type is None:
            numbers.append(-1)
        elif k in constants:
            numbers.append(graph.tensor(type, data=np.ascontiguousarray(value).tobytes()))
        else:
            numbers.append(graph.input(type))
    file = graph.build(graph.add(operator, numbers, outputs, options, version=version))
    fed = [v for k, v in enumerate(inputs) if v is not None and k not in constants]
    return litert_run(file, fed, reference)


class Draw:
    """Random types and values of one dtype."""

    def __init__(self, seed: int, dtype: DType) -> None:
        self.rng = np.random.default_rng(seed)
        self.dtype = dtype

    def type(self, *shape: int, low: float = 0.005, high: float = 0.2) -> TensorType:
        """Return a type with a random scale and zero point; int16 has zero point 0, as in TFLite's files."""
        int16 = self.dtype is DType.INT16
        zero = 0 if int16 else int(self.rng.integers(*LIMITS[self.dtype], endpoint=True))
        return quantized(self.dtype, shape, float(self.rng.uniform(low, high)), zero)

    def values(self, type: TensorType) -> Array:
        """Return random stored values of the whole range."""
        return stored(int(self.rng.integers(2**31)), type)


def every(type: TensorType) -> Array:
    """All stored values."""
    return np.arange(LIMITS[type.dtype][0], LIMITS[type.dtype][1] + 1).astype(type.dtype.numpy)


def computed(
    op: str,
    inputs: Sequence[Array],
    types: Sequence[TensorType],
    attrs: Mapping[str, Any] | None = None,
    output: Quantization | None = None,
) -> Array:
    """Return the result of the op's integer reference."""
    operation = integer_model(op, inputs, types, attrs, output).operations[0]
    (result,) = operation.evaluate(inputs)
    return result


def near(got: Array, real: Array, type: TensorType, steps: float = 1.0) -> None:
    """Assert that stored values lie within `steps` of real numbers, clamped to the type's range."""
    quantization = type.quantization
    assert quantization is not None
    exact = np.clip(real / quantization.scale[0] + quantization.zero_point[0], *LIMITS[type.dtype])
    assert np.abs(got.astype(np.float64) - exact).max(initial=0) <= steps


def reals(values: Array, type: TensorType) -> Array:
    """Return the real numbers of stored values, in float64."""
    return dequantize(values, type).astype(np.float64)
