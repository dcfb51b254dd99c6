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
from gpunn.types import Array, Quantization, TensorType
from tests.tflite_builder import Graph, litert_run


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
