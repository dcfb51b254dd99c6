"""Constants for each channel, for example batch normalisation, become part of the layer's weights.

w x + b, multiplied by s and moved by t, is (s w) x + (s b + t). Weights are computed in float64 and rounded
once, so each product changes by one rounding at most. This would not hold for a sum before the layer (x + t
may be small when x is not), and for weights outside of float32's normal numbers; these stay.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gpunn.graph.graph import Graph
from gpunn.graph.operation import Lifetime, Operand, Operation
from gpunn.ops.filter import BIAS, FILTER
from gpunn.passes.rewrite import absorb_pairs
from gpunn.types import Array, DType, float32

MAX_SCALED_BYTES = 256 << 20  # of filters in all: a small file may scale the same large one often
SMALLEST = float(np.finfo(np.float32).tiny)


def fold_channels(model: Graph) -> Graph:
    """Fold sums and products with constants after a layer, and products before it, into filter and bias.

    Up to MAX_SCALED_BYTES of filters are computed again.
    """
    left = MAX_SCALED_BYTES

    def merge(first: Operation, second: Operation, between: Operand) -> Operation | None:
        nonlocal left
        merged = _after(first, second, between, left) or _before(first, second, between, left)
        if merged is not None and merged.inputs[FILTER] not in (*first.inputs, *second.inputs):
            left -= merged.call().input(FILTER).nbytes
        return merged

    return absorb_pairs(model, merge)


def _after(layer: Operation, arithmetic: Operation, between: Operand, most: int) -> Operation | None:
    """Return the layer including the arithmetic on its result."""
    axis = output_axis(layer)
    if (
        axis is None
        or layer.attrs.get("activation") is not None
        or arithmetic.outputs[0].type != between.type
    ):
        return None
    change = change_of(arithmetic, between)
    changed = None if change is None else changed_layer(layer, axis, *change, most)
    if changed is None:
        return None
    attrs = {**layer.attrs, "activation": arithmetic.attrs.get("activation")}
    return replace(changed, outputs=arithmetic.outputs, attrs=attrs)


def changed_layer(layer: Operation, axis: int, factor: Array, summand: Array, most: int) -> Operation | None:
    """Return a layer whose result is factor * that of another one + summand, for each channel.

    axis: what output_axis() gives. most: bytes of its filter. None if weights cannot say it.
    """
    bias = layer.inputs[BIAS] if len(layer.inputs) > BIAS else None
    known = None if bias is None else bias.value
    if bias is not None and known is None:
        return None
    shape = [1] * layer.call().input(FILTER).rank
    shape[axis] = factor.size
    filter = _scaled(layer.inputs[FILTER], factor.reshape(shape), most)
    if filter is None:
        return None
    if bias is not None or summand.any():
        moved = (0.0 if known is None else known.astype(np.float64)) * factor + summand
        bias = _constant(bias or filter, moved)
        if bias is None:
            return None
    return replace(layer, inputs=(layer.inputs[0], filter, bias))


def _before(arithmetic: Operation, layer: Operation, between: Operand, most: int) -> Operation | None:
    """Return the layer including a product that computes its input; padding is 0 before and after."""
    if output_axis(layer) is None or layer.inputs[0] is not between:
        return None
    if arithmetic.attrs.get("activation") is not None:
        return None
    x = next((i for i in arithmetic.inputs if i is not None and i.value is None), None)
    if x is None or x.type != between.type:
        return None
    change = change_of(arithmetic, x)
    if change is None or change[1].any():
        return None
    factor = _along_depth(layer, change[0])
    filter = None if factor is None else _scaled(layer.inputs[FILTER], factor, most)
    return None if filter is None else replace(layer, inputs=(x, filter, *layer.inputs[BIAS:]))


def output_axis(layer: Operation) -> int | None:
    """Return the axis of the output channels in the filter of a layer of float32; None for all else."""
    filter = layer.definition.filter
    if filter is None or layer.integer or layer.outputs[0].type.dtype is not DType.FLOAT32:
        return None
    return filter.output_axis


def change_of(arithmetic: Operation, x: Operand) -> tuple[Array, Array] | None:
    """Return the factor and the summand of an operation for each channel of x; None for other operations."""
    affine = arithmetic.definition.algebra.affine
    if affine is None:
        return None
    left = arithmetic.inputs[0] is x
    other = arithmetic.inputs[1] if left else arithmetic.inputs[0]
    c = None if other is None else _as_vector(other, x)
    return None if c is None else (affine.left if left else affine.right)(c)


def _as_vector(constant: Operand, like: Operand) -> Array | None:
    """Return a constant with one number, or one for each channel of `like`, as float64 [channels]."""
    if constant.value is None or not like.type.rank:
        return None
    channels = like.type.shape[-1]
    if constant.type.size != 1 and (constant.type.shape[-1:], constant.type.size) != ((channels,), channels):
        return None
    return np.broadcast_to(constant.value.astype(np.float64).reshape(-1), (channels,))


def _along_depth(layer: Operation, factor: Array) -> Array | None:
    """Shape a factor for each input channel to broadcast over the layer's filter; None if impossible."""
    filter = layer.definition.filter
    if filter is None or filter.along_input is None:
        return None
    return filter.along_input(layer.call().input(FILTER).shape, factor)


def _scaled(filter: Operand | None, factor: Array, most: int) -> Operand | None:
    """Multiply the filter by a factor that is not all 1; None if this is more than rounding."""
    if filter is None or (factor == 1).all():
        return filter
    if filter.value is None or filter.value.dtype != np.float32 or filter.type.nbytes > most:
        return None
    scaled = filter.value * factor
    lost = (np.abs(scaled) < SMALLEST) & (filter.value != 0) & (factor != 0)
    return None if lost.any() else _constant(filter, scaled)


def _constant(like: Operand, value: Array) -> Operand | None:
    """Round float64 values to float32, named after another operand; None if one is not finite."""
    with np.errstate(over="ignore", invalid="ignore"):
        rounded = value.astype(np.float32)
    if not np.isfinite(rounded).all():
        return None
    return replace(like, type=float32(*rounded.shape), lifetime=Lifetime.CONSTANT, value=rounded)
