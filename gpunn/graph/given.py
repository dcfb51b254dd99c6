"""Arguments of Graph's methods, checked before anything is added to a graph."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from numbers import Real
from typing import Any

from gpunn.arguments import expect_integer, expect_list, integer
from gpunn.errors import ModelError
from gpunn.graph.operation import Operand
from gpunn.types import DType, Quantization, Shape, TensorType
from gpunn.wording import counted


def expect_tensor(name: Any, type: Any, open: Iterable[int] | None = ()) -> None:
    """Raise ModelError unless a tensor may have this name and type; extents along axes `open` have no
    meaning, and if that is None the shape has none.
    """
    if not isinstance(name, str):
        raise ModelError(f"the name of a tensor must be a str, got {name!r}")
    if not isinstance(type, TensorType) or not isinstance(type.dtype, DType):
        raise ModelError(f"tensor {name!r} must have a TensorType with a DType, got {type!r}")
    if not isinstance(type.shape, tuple) or any([integer(extent) is None for extent in type.shape]):
        raise ModelError(f"the shape of tensor {name!r} must be a tuple of integers, got {type.shape!r}")
    if type.quantization is not None:
        expect_quantization(f"tensor {name!r}", type.quantization, type.shape, open)


def expect_quantization(what: str, quantization: Any, shape: Shape, open: Iterable[int] | None = ()) -> None:
    """Raise ModelError for what is no Quantization, and for one with scales that a shape has no extent for.

    Ops check the values of scales and zero points. open: see expect_tensor().
    """
    if not isinstance(quantization, Quantization):
        raise ModelError(f"{what}: a quantisation must be a gpunn.Quantization, got {quantization!r}")
    scales, zeros, axis = quantization.scale, quantization.zero_point, quantization.axis
    if not isinstance(scales, tuple) or not scales or not all([isinstance(s, Real) for s in scales]):
        raise ModelError(f"{what}: scales must be a tuple of one number or more, got {scales!r}")
    if not isinstance(zeros, tuple) or any([integer(zero) is None for zero in zeros]):
        raise ModelError(f"{what}: zero points must be a tuple of integers, got {zeros!r}")
    count = counted(len(scales), "scale")
    if len(zeros) not in (1, len(scales)):
        raise ModelError(f"{what}: {count} must have as many zero points or one, got {len(zeros)}")
    axis = expect_integer(f"{what}: the axis of a quantisation", axis)
    if len(scales) == 1 or open is None or axis in open:
        return
    if not 0 <= axis < len(shape) or shape[axis] != len(scales):
        raise ModelError(f"{what}: {count} do not lie along axis {axis} of shape {list(shape)}")


def expect_input(name: Any, type: Any, open: Any, default: Any) -> set[int]:
    """Return the open axes of an input; raise ModelError for what Graph.input() cannot take."""
    expect_tensor(name, type, None)
    stated = () if open is None else open
    expect_list(f"the open axes of input {name!r}", stated, "axes")
    axes = {expect_integer(f"an open axis of input {name!r}", axis) for axis in stated}
    if not axes <= {*range(type.rank)}:
        raise ModelError(f"input {name!r} of rank {type.rank} has no axes {sorted(axes)}")
    expect_tensor(name, type, None if open is None else axes)
    if default is not None and not isinstance(default, Real):
        raise ModelError(f"the default of input {name!r} must be a number, got {default!r}")
    return axes


def expect_lists(op: str, inputs: Any, attrs: Any, names: Any, quantization: Any) -> None:
    """Raise ModelError unless the arguments of Graph.add() are lists and a dict, as they should be."""
    expect_list(f"the inputs of {op}", inputs, "operands")
    expect_list(f"the quantisations of {op}", quantization, "quantisations")
    expect_list(f"the names of {op}", names, "names of results")
    if not all([isinstance(name, str) for name in names]):
        raise ModelError(f"the names of {op} must be strs, got {names!r}")
    if not isinstance(attrs, Mapping):
        raise ModelError(f"the attributes of {op} must be a dict, got {attrs!r}")


def expect_operand(where: str, operand: Any) -> None:
    """Raise ModelError for what is no operand."""
    if not isinstance(operand, Operand):
        raise ModelError(f"{where}: expected an operand of a model, got {operand!r}")
