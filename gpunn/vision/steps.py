"""Steps around a classifier: from the bytes of photos to its input, and from its scores to the best classes.

They are operations of the model, so a run uploads bytes and reads back a few answers.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gpunn.arguments import expect_integer
from gpunn.graph.complete import like, repeat, same_input
from gpunn.graph.graph import Graph
from gpunn.graph.operation import Operand
from gpunn.graph.pixels import Numbers, tuple_of
from gpunn.graph.writers import before_reshapes, writers_of
from gpunn.model import Model
from gpunn.ops.fixed_point.affine import LIMITS
from gpunn.types import DType, TensorType
from gpunn.vision.classes import ScoreOutput
from gpunn.vision.photos import BYTES, PhotoInput, mandatory


def takes_bytes(model: Model, wanted: PhotoInput) -> Model:
    """Return the model with an input for the bytes of photos: uint8, of the shape and name that it has.

    wanted: what photo_input() says of the model; the first operations compute it. Bytes become
    (byte - mean) / std in float32, rounded as PhotoInput.stored() rounds on the host, and for a quantised
    input the stored integers of that; or a quantised input stores the bytes, in int8 less 128. A convolution
    behind the division takes it into its weights when the model is compiled, so each product may change by
    one rounding (gpunn/passes/scale.py); and a GPU may be off by 2.5 units in the last place where it divides
    (WGSL). A model that takes bytes is returned as it is.
    """
    (given,) = mandatory(model)
    type = _type_of_bytes(given.type, wanted)
    if type == given.type:
        return model
    made, new = like(model), dict[Operand, Operand]()
    made.pixel_scale = None  # which the new operations know
    for operand in model.inputs:
        new[operand] = same_input(made, operand, type if operand is given else operand.type)
    new[given] = _values(made, new[given], given.type, wanted)
    repeat(model, made, new)
    made.output(*(new.get(o, o) for o in model.outputs))
    return Model.of(made)


def _type_of_bytes(type: TensorType, wanted: PhotoInput) -> TensorType:
    """Return the type of bytes: as real numbers from 0 to 255, or those that a quantised input stores."""
    kept = wanted.mean is None and type.quantization is not None
    if not kept or type.quantization is None:
        return replace(type, dtype=DType.UINT8, quantization=BYTES)
    lowest, _ = LIMITS[type.dtype]
    (zero,) = type.quantization.zero_point
    moved = replace(type.quantization, zero_point=(zero - lowest,))
    return replace(type, dtype=DType.UINT8, quantization=moved)


def _values(made: Graph, pixels: Operand, type: TensorType, wanted: PhotoInput) -> Operand:
    """Add the operations from bytes to values of a type."""
    x = pixels
    if wanted.mean is not None and wanted.std is not None:
        (x,) = made.add("cast", [pixels], {"dtype": DType.FLOAT32.value}, names=["pixels"])
        x = _by(made, "sub", x, wanted.mean, 0)
        x = _by(made, "div", x, wanted.std, 1)
    if type.quantization is not None:
        (scale,), (zero,) = type.quantization.scale, type.quantization.zero_point
        attrs = {"dtype": type.dtype.value, "scale": scale, "zero_point": zero}
        (x,) = made.add("quantize", [x], attrs, names=["stored pixels"])
    return x


def _by(made: Graph, op: str, x: Operand, numbers: Numbers, neutral: float) -> Operand:
    """Add an operation with one number, or one for each channel, unless it changes nothing."""
    if {*tuple_of(numbers)} == {neutral}:
        return x
    value = np.asarray(numbers, np.float32)
    (y,) = made.add(op, [x, made.constant(f"to {op}", value)], names=[f"pixels, {op}"])
    return y


def gives_best(model: Model, given: ScoreOutput, top: int) -> Model:
    """Return the classifier with the `top` classes of the highest scores as outputs, best first.

    given: what score_output() says of the model. The outputs are "indices", int32 [batch, k], and "scores",
    float32 [batch, k], of real numbers that are not calibrated; k is `top`, or the number of classes if that
    is less. Of equal scores the first class comes first. If the file's calibration may change the order of
    classes, "scores" has all of them, in the order of the model, and there are no indices.

    If the model neither ends in a softmax nor states a calibration, there are also "least" and "total", and
    for a quantised output "nonzero", float32 [batch]: the smallest score, the sum of all and the number of
    those that are not 0, which tell whether they are probabilities (ScoreOutput.is_distribution()).
    Raises ModelError unless top is 1 or more.
    """
    top = expect_integer("the number of classes to name", top, 1)
    made, new = like(model), dict[Operand, Operand]()
    for operand in model.inputs:
        new[operand] = same_input(made, operand, operand.type)
    repeat(model, made, new)
    (output,) = (new.get(o, o) for o in model.outputs)
    scores = _real_rows(made, output, given)
    calibration = None if given.scoring is None else given.scoring.calibration
    if calibration is not None and not calibration.rises:
        made.output(scores)
        return Model.of(made)
    best, indices = made.add(
        "top_k", [scores], {"k": min(top, given.classes)}, names=["scores of the best", "indices"]
    )
    made.output(indices, best)
    if calibration is None and not _is_distribution(model):
        made.output(*_sums(made, scores, given))
    return Model.of(made)


def _real_rows(made: Graph, output: Operand, given: ScoreOutput) -> Operand:
    """Add what gives an output as real numbers, a row for each photo."""
    if output.type.quantization is not None:
        (output,) = made.add("dequantize", [output], names=["scores"])
    if output.type.shape != (given.type.size // given.classes, given.classes):
        (output,) = made.add("reshape", [output], {"shape": (-1, given.classes)}, names=["scores"])
    return output


def _sums(made: Graph, scores: Operand, given: ScoreOutput) -> list[Operand]:
    """Add the figures of all scores of a photo."""
    along = {"axes": (1,), "keep_dims": False}
    (least,), (total,) = (
        made.add(op, [scores], along, names=[name])
        for op, name in (("reduce_min", "least"), ("reduce_sum", "total"))
    )
    if given.type.quantization is None:
        return [least, total]
    (differs,) = made.add("not_equal", [scores, made.constant("0", np.float32(0))], names=["not 0"])
    (ones,) = made.add("cast", [differs], {"dtype": DType.FLOAT32.value}, names=["1 if not 0"])
    (nonzero,) = made.add("reduce_sum", [ones], along, names=["nonzero"])
    return [least, total, nonzero]


def _is_distribution(model: Graph) -> bool:
    """Tell whether the scores of each photo come from a softmax, whose bytes only get other shapes."""
    writers, (scores,) = writers_of(model), model.outputs
    operation = writers.get(before_reshapes(writers, scores))
    if operation is None or not operation.definition.algebra.distribution:
        return False
    shape, axis = operation.outputs[0].type.shape, operation.attrs["axis"]
    return shape[axis] == scores.type.shape[-1] and all(n == 1 for n in shape[axis % len(shape) + 1 :])
