"""Two operations of one kind become one: transposes, rolls, reshapes, integer constants added or multiplied,
means or sums of reals along some axes and then along others.

Of all others than means and sums the results stay the same to the bit. Real constants are not combined: a sum
of a small x and two constants that cancel would lose x.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gpunn.graph.graph import Graph
from gpunn.graph.operation import Lifetime, Operand, Operation
from gpunn.ops import OPS
from gpunn.ops.check import FLOATS
from gpunn.ops.movement.basic import reshape, transpose
from gpunn.ops.movement.roll import roll
from gpunn.ops.reduction.reduce_integer import reduced_axes
from gpunn.passes.rewrite import absorb_pairs
from gpunn.types import DType

_REDUCTIONS = tuple(OPS[name] for name in ("mean", "reduce_sum"))


def combine(model: Graph) -> Graph:
    """Merge what follows on its like; a pair that cancels leaves an operation that changes nothing."""
    return absorb_pairs(model, _merge)


def _merge(first: Operation, second: Operation, between: Operand) -> Operation | None:
    if first.definition is second.definition is transpose:
        perm = tuple(first.attrs["perm"][axis] for axis in second.attrs["perm"])
        return replace(second, inputs=first.inputs, attrs={"perm": perm})
    if first.definition is second.definition is roll:
        shifts = zip(first.attrs["shifts"], second.attrs["shifts"], between.type.shape, strict=True)
        both = tuple((a + b) % max(n, 1) for a, b, n in shifts)
        return replace(second, inputs=first.inputs, attrs={"shifts": both})
    if reshapes(first) and reshapes(second):
        shape = second.outputs[0].type.shape
        return replace(second, op=reshape.name, inputs=first.inputs, attrs={"shape": shape})
    if first.definition is second.definition and first.definition in _REDUCTIONS:
        return _merge_reductions(first, second)
    affine = second.definition.algebra.affine
    if first.definition is second.definition and affine is not None and affine.associative:
        return _merge_constants(first, second, between)
    return None


def _merge_reductions(first: Operation, second: Operation) -> Operation | None:
    """Reduce along the axes of both at once; each mean is one of as many elements."""
    call, kept = first.call(), first.attrs["keep_dims"]
    if call.x.dtype not in FLOATS or kept is not second.attrs["keep_dims"]:
        return None
    axes = reduced_axes(call)
    places = [axis for axis in range(call.x.rank) if kept or axis not in axes]
    both = {*axes, *(places[axis] for axis in reduced_axes(second.call()))}
    return replace(second, inputs=first.inputs, attrs={**second.attrs, "axes": tuple(sorted(both))})


def reshapes(operation: Operation) -> bool:
    """Tell whether the result has the bytes of the input under another shape."""
    return operation.definition.alias and operation.definition.algebra.permutes


def _merge_constants(first: Operation, second: Operation, between: Operand) -> Operation | None:
    """Change (x + a) + b to x + (a + b), and likewise products: integers wrap around in any order."""
    (x, a), (_, b) = _split(first), _split(second)
    if x is None or a is None or b is None or a.value is None or b.value is None:
        return None
    if between.type.dtype is not DType.INT32 or first.integer or first.attrs.get("activation") is not None:
        return None
    if not x.type == between.type == second.outputs[0].type:
        return None
    with np.errstate(over="ignore"):
        both = np.asarray(first.definition.reference(a.value, b.value))
    if both.size > max(a.type.size, b.type.size):
        return None
    constant = Operand(a.name, a.type.with_shape(both.shape), Lifetime.CONSTANT, both)
    return replace(second, inputs=(x, constant))


def _split(operation: Operation) -> tuple[Operand | None, Operand | None]:
    """Return the variable operand and the constant of an operation; None, None if it does not have both."""
    left, right = operation.inputs
    if left is None or right is None or (left.value is None) == (right.value is None):
        return None, None
    return (left, right) if left.value is None else (right, left)
