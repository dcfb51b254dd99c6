"""The types that the TFLite reader accepts, for an operator's inputs and for its stated results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gpunn.errors import FormatError
from gpunn.graph.operation import Operand
from gpunn.importers.common.answers import Step
from gpunn.importers.common.node import RefusedError
from gpunn.importers.tflite.subgraph import FileTensor
from gpunn.ops import OPS
from gpunn.ops.check import QUANTIZED
from gpunn.ops.filter import BIAS
from gpunn.ops.op import Op
from gpunn.types import DType, Quantization, TensorType

INTEGERS = (DType.INT32, DType.INT64, DType.BOOL)  # of these the op itself says whether it takes them
# What TFLite's operators of these take without a scale; UNSCALED ones take what the op does.
SUMS: Mapping[str, tuple[DType, ...]] = {
    "add": (DType.INT16, DType.FLOAT16, DType.COMPLEX64),
    "add_n": (DType.INT16, DType.FLOAT16),
    "mul": (DType.INT16, DType.FLOAT16, DType.COMPLEX64),
    "reduce_sum": (),
}
UNSCALED = ("REDUCE_WINDOW", "STABLEHLO_")


def expect_type(origin: str, what: str, tensor: FileTensor, operand: Operand) -> None:
    """Raise FormatError unless the file's type of `what` fits the inputs; the shape is not compared."""
    if tensor.dtype is None:
        raise RefusedError(f"{what} is {tensor.type_name}, which is not supported")
    if tensor.dtype is not operand.type.dtype:
        raise FormatError(f"{origin}: {what} is {tensor.type_name}, expected {operand.type.dtype.name}")
    if tensor.quantization != operand.type.quantization:
        raise RefusedError(
            f"{what} has {_words(tensor.quantization)}, "
            f"expected {_words(operand.type.quantization)} from the inputs"
        )


def wrong_shape(tensor: FileTensor, operand: Operand) -> str:
    """Say that the file's shape is not the one that follows from the inputs; empty if it is."""
    expected = operand.type.shape
    if tensor.open.admits(expected):
        return ""
    return f"has shape {list(tensor.stored)} in the file, expected {list(expected)} from the inputs"


def expect_reals(code: str, op: str | Op, inputs: Sequence[Operand | None]) -> None:
    """Refuse reals that are not float32, or quantised integers throughout, unless they just move.

    A custom op says itself what it takes. `code`: of the operator that the op belongs to.
    """
    if not isinstance(op, str):
        return
    types = [None if o is None else o.type for o in inputs]
    integer = any(t is not None and t.quantization is not None for t in types)
    plain = _plain(OPS[op]) if code.startswith(UNSCALED) else SUMS.get(op, _plain(OPS[op]))
    for position, (operand, type) in enumerate(zip(inputs, types, strict=True)):
        if operand is None or type is None:
            continue
        whole = type.quantization is None and type.dtype in plain
        if not whole and not _real(op, position, type, integer):
            if type.dtype is DType.STRING:
                raise RefusedError(f"input {position} ({operand.name}) is STRING, which it does not take")
            kind = type.dtype.name if type.quantization is None else f"quantised {type.dtype.name}"
            among = " among quantised inputs" if integer and type.dtype is DType.FLOAT32 else ""
            raise RefusedError(
                f"input {position} ({operand.name}) is {kind}{among}, "
                "only FLOAT32 or quantised UINT8, INT8 and INT16 are supported"
            )


def expect_scales(step: Step, declared: Sequence[Quantization | None]) -> None:
    """Refuse a scale for what an op makes of integers without one: they stand for themselves."""
    types = [o.type for o in step.inputs if isinstance(o, Operand)]
    if all(t.quantization is None and t.dtype in (*INTEGERS, *QUANTIZED) for t in types):
        stated = next(q for q in declared if q is not None)
        raise RefusedError(f"the result has {_words(stated)}, expected no quantisation from the inputs")


def _plain(op: Op) -> tuple[DType, ...]:
    """Return the element types that stand for themselves where an op reads them."""
    quantized = op.quantized
    return (*op.dtypes, *(quantized.dtypes if quantized is not None and quantized.plain else ()))


def _real(op: str, position: int, type: TensorType, integer: bool) -> bool:
    """Tell whether an op takes a type at one of its inputs; `integer`: some input is quantised."""
    definition = OPS[op]
    if type.dtype is DType.STRING:
        return definition.strings
    if definition.raw:
        return True
    quantised = type.quantization is not None
    if integer and definition.quantized is not None and definition.quantized.mixed:
        return True
    if type.dtype in QUANTIZED:
        return quantised
    biased = definition.filter is not None and definition.filter.output_axis is not None
    if biased and integer:  # the bias is INT32, or INT64 under inputs of INT16
        return type.dtype in (DType.INT32, DType.INT64) and position == BIAS
    if biased:
        return type.dtype is DType.FLOAT32
    if type.dtype in INTEGERS:
        return not quantised
    return type.dtype is DType.FLOAT32 and not integer


def _words(quantization: Quantization | None) -> str:
    """Return a quantisation for a message."""
    if quantization is None:
        return "no quantisation"
    if not quantization.per_tensor:
        return f"{len(quantization.scale)} scales"
    return f"scale {quantization.scale[0]:g} and zero point {quantization.zero_point[0]}"
