"""Two files of one model: the inputs and outputs of one file in the form that the other one has for them.

Photos become pixels, and pixels become what each model takes. Other arrays keep their real values. If one
file has the channels before height and width and the other one behind them, axes move.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpunn import vision
from gpunn.errors import ModelError, UnsupportedError
from gpunn.graph.graph import Graph
from gpunn.graph.pixels import Numbers
from gpunn.ops.fixed_point.affine import dequantize, quantize
from gpunn.types import Array, Shape, TensorType


@dataclass(frozen=True, slots=True)
class Scale:
    """The scale of a model's photos: (byte - mean) / std; None as for vision.photo_input."""

    mean: Numbers | None
    std: Numbers | None


def scales(model: Graph, other: Graph | None, given: Scale) -> tuple[Scale, Scale]:
    """Return the scale of photos for each of two models.

    `given` is meant for both; but if only one of them scales photos itself, for the other one. If nothing is
    given and only one file states a scale, the float32 input of the other one gets it, too: they are files of
    one model.
    """
    ours = vision.scales_photos(model)
    if other is None:
        return given, given
    if ours == vision.scales_photos(other):
        if given == Scale(None, None):
            return _stated(model, other), _stated(other, model)
        return given, given
    return (Scale(None, None), given) if ours else (given, Scale(None, None))


def _stated(model: Graph, other: Graph) -> Scale:
    """Return the scale that only the file of the other model states, if the model needs one."""
    quantised = any(operand.type.quantization is not None for operand in model.inputs)
    if model.pixel_scale is not None or other.pixel_scale is None or quantised:
        return Scale(None, None)
    return Scale(other.pixel_scale.mean, other.pixel_scale.std)


def photo_inputs(model: Graph, other: Graph, scale: tuple[Scale, Scale]) -> tuple[vision.PhotoInput, ...]:
    """Describe the photos that two models take, if arrays for one become arrays for the other as pixels.

    They do if one of the models scales photos itself, so that real values of both mean different things.
    Otherwise return nothing.
    """
    if not any(map(vision.scales_photos, (model, other))):
        return ()
    try:
        return tuple(vision.photo_input(m, s.mean, s.std) for m, s in zip((model, other), scale, strict=True))
    except (ModelError, UnsupportedError):
        return ()


def converted(value: Array, have: TensorType, want: TensorType) -> Array:
    """Return an array of the type `have` as one of the type `want`, with the same real values."""
    value = arranged(value, want.shape)
    if (have.dtype, have.quantization) == (want.dtype, want.quantization):
        return value
    real = dequantize(value, have.with_shape(want.shape))
    return quantize(real, want) if want.quantization is not None else real.astype(want.dtype.numpy)


def arranged(value: Array, shape: Shape) -> Array:
    """Return an array of the same size in another shape.

    If the shapes differ, apart from extents of 1, only in the place of the channels, this axis moves: from
    behind the batch, or from the front of one sample, to the end, or back.
    """
    bare, wanted = (tuple(n for n in s if n != 1) for s in (value.shape, shape))
    if bare != wanted:
        one = value.reshape(bare)
        for array, target, move in (
            *((value, shape, move) for move in ((1, -1), (-1, 1)) if value.ndim > 3),
            *((one, wanted, move) for move in ((0, -1), (-1, 0)) if one.ndim > 2),
        ):
            moved = np.moveaxis(array, *move)
            if moved.shape == target:
                return moved.reshape(shape)
    return value.reshape(shape)
