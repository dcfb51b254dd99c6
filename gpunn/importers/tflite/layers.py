"""Filters and biases whose scales or zero points LiteRT does not take as they are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from gpunn.importers.tflite.subgraph import FileOperator, FileTensor
from gpunn.ops.contraction.integer_product import bias_misfit
from gpunn.types import DType, Quantization

# Of |input * filter - bias| / output, in scales: kernel_util.cc of LiteRT, GetQuantizedConvolutionMultipler.
TOLERANCE = 0.02


class Layer(NamedTuple):
    """The places of operands among an operator's inputs.

    `checked`: LiteRT checks the bias of all types; `zeros`: it takes several scales with zero points.
    """

    x: int = 0
    filter: int = 1
    bias: int = 2
    checked: bool = False
    zeros: bool = True


LAYERS: Mapping[str, Layer] = {
    "CONV_2D": Layer(zeros=False),
    "DEPTHWISE_CONV_2D": Layer(),
    "FULLY_CONNECTED": Layer(checked=True),
    "TRANSPOSE_CONV": Layer(x=2, bias=3),
}


def with_filters(
    tensors: list[FileTensor], operators: Iterable[FileOperator], warn: Callable[[str], None]
) -> list[FileTensor]:
    """Return the same with the quantisation that LiteRT uses for filters.

    A scale of 0 makes a filter of zeros. Zero points of several scales count as 0, with a warning.
    """
    found = list(tensors)
    for operator, layer in _layers(operators):
        index = _input(operator, layer.filter)
        if index is None:
            continue
        filter = found[index]
        quantization = filter.quantization
        if filter.dead and filter.dtype in (DType.INT8, DType.UINT8):
            found[index] = replace(filter, quantization=Quantization((0.0,), (0,)))
        if quantization is None or quantization.per_tensor or not layer.zeros:
            continue
        if not any(quantization.zero_point):
            continue
        zeros = (0,) * len(quantization.scale)
        found[index] = replace(filter, quantization=replace(quantization, zero_point=zeros))
        warn(f"{operator}: the filter has zero points beside several scales; they count as 0, as in LiteRT")
    return found


def with_fitting_biases(
    tensors: list[FileTensor], operators: Iterable[FileOperator], warn: Callable[[str], None]
) -> list[FileTensor]:
    """Return the same without the scales of biases that do not fit, each with a warning.

    A bias without a scale counts in steps of input * filter. Scales stay if LiteRT refuses them: per tensor
    those that miss by more than TOLERANCE. So do zero points.
    """
    fitting = list(tensors)
    for operator, layer in _layers(operators):
        index = _input(operator, layer.bias)
        why = None if index is None else _misfit(tensors, operator, layer)
        if index is not None and why:
            fitting[index] = replace(tensors[index], quantization=None)
            warn(f"{operator}: {why}; its integers are added as steps of input * filter, as in LiteRT")
    return fitting


def _layers(operators: Iterable[FileOperator]) -> Iterator[tuple[FileOperator, Layer]]:
    """Yield the operators that are layers, with what is known of them."""
    return ((operator, LAYERS[operator.code]) for operator in operators if operator.code in LAYERS)


def _input(operator: FileOperator, position: int) -> int | None:
    return operator.inputs[position] if position < len(operator.inputs) else None


def _misfit(tensors: list[FileTensor], operator: FileOperator, layer: Layer) -> str:
    """Say why the scale of an operator's bias does not fit; empty if it does, or if LiteRT refuses it."""
    places = (_input(operator, k) for k in (layer.x, layer.filter, layer.bias))
    found = [tensors[k] for k in (*places, *operator.outputs[:1]) if k is not None]
    if len(found) != 4:
        return ""
    x, filter, bias, y = (tensor.quantization for tensor in found)
    if x is None or filter is None or bias is None or y is None or not (x.per_tensor and y.per_tensor):
        return ""
    if any(bias.zero_point):
        return ""
    products = x.scale[0] * np.asarray(filter.scale)
    checks = filter.per_tensor and (layer.checked or found[0].dtype is DType.UINT8)
    if checks and abs(float(products[0]) - bias.scale[0]) / y.scale[0] > TOLERANCE:
        return ""
    return bias_misfit(bias, products)
