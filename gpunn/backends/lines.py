"""Sums and products that the CPU backend computes in one loop, where numpy needs several passes.

They are a product and then a sum with a number for each channel, as batch normalisation is where it stands
before a layer; such a product, such a sum, and a sum of two tensors, if they clamp their results; a sum with
a tensor that gets further channels of zeros before; and a product of an image with computed numbers, as in
squeeze and excitation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from gpunn.graph.consumers import consumers
from gpunn.graph.graph import Graph
from gpunn.graph.operation import Operand, Operation
from gpunn.graph.prepared import Joint
from gpunn.ops.compiled import equal_rows, real_loops
from gpunn.ops.contraction.prepared import UNBOUNDED, Ends, clamp_ends
from gpunn.ops.memory import LEAST_BYTES, empty
from gpunn.ops.movement import basic
from gpunn.passes.scale import change_of
from gpunn.types import Array, DType, Shape


class _Line(NamedTuple):
    """The function of x, factor * x + summand for each channel, which clamps its results to `ends`."""

    x: Operand
    factor: Array
    summand: Array
    ends: Ends

    @property
    def is_product(self) -> bool:
        return not self.summand.any()

    @property
    def is_sum(self) -> bool:
        return bool((np.abs(self.factor) == 1).all())


def joints(model: Graph) -> Mapping[Operation, Joint]:
    """Return the operations that one loop computes, by the last of them."""
    readers, results = consumers(model), model.results
    private: dict[Operand, Operation] = {}
    lines: dict[Operation, _Line] = {}
    found: dict[Operation, Joint] = {}
    for operation in model.operations:
        for y in operation.outputs:
            if y not in results and len(readers.get(y, ())) == 1:
                private[y] = operation
        line = _line(operation)
        if line is None:
            joint = _sum_of_tensors(operation, private) or _product_by_channel(operation)
            if joint is not None:
                found[operation] = joint
            continue
        if line.is_product and line.ends is UNBOUNDED:
            lines[operation] = line
        before = private.get(line.x)
        product = None if before is None else lines.get(before)
        if product is not None and line.is_sum:
            whole = _Line(product.x, product.factor * line.factor, line.summand, line.ends)
            found[operation] = Joint((product.x,), partial(_by_channel, whole, operation, before), before)
        elif line.ends is not UNBOUNDED and (line.is_product or line.is_sum):
            found[operation] = Joint((line.x,), partial(_by_channel, line, operation, None))
    return found


def _line(operation: Operation) -> _Line | None:
    """Return what an operation of float32 on a tensor and constants computes; None for other operations."""
    computed = [i for i in operation.inputs if i is not None and i.value is None]
    if operation.definition.algebra.affine is None or len(computed) != 1:
        return None
    ends = _ends(operation)
    if ends is None:
        return None
    (x,), (y,) = computed, operation.outputs
    change = change_of(operation, x) if x.type == y.type else None
    if change is None:
        return None
    factor, summand = (numbers.astype(np.float32) for numbers in change)
    exact = np.array_equal(factor, change[0]) and np.array_equal(summand, change[1])
    return _Line(x, factor, summand, ends) if exact else None


def _ends(operation: Operation) -> Ends | None:
    """Return what an operation of float32 clamps its results to; None for other operations."""
    operands = [*operation.inputs, *operation.outputs]
    if any(o is None or o.type.dtype is not DType.FLOAT32 for o in operands) or len(operation.outputs) != 1:
        return None
    if operation.direct() is None or operation.custom:
        return None
    activation: Any = operation.attrs.get("activation")
    return clamp_ends(activation) if activation is None or isinstance(activation, str) else None


def _sum_of_tensors(operation: Operation, private: Mapping[Operand, Operation]) -> Joint | None:
    """Return a sum of two tensors of one shape, one of which may get channels just before."""
    if operation.op != "add":
        return None
    ends, operands = _ends(operation), [i for i in operation.inputs if i is not None and i.value is None]
    types = {o.type for o in (*operands, *operation.outputs)}
    if ends is None or len(types) > 1 or len(operands) < 2:
        return None
    for a, b in (operands, operands[::-1]):
        pad = private.get(b)
        x = None if pad is None else _with_fewer_channels(pad)
        if x is not None:
            return Joint((a, x), partial(_added, operation, ends, pad), pad)
    return None if ends is UNBOUNDED else Joint(tuple(operands), partial(_added, operation, ends, None))


def _product_by_channel(operation: Operation) -> Joint | None:
    """Return a product of a large tensor with one that has a number for each channel."""
    ends, (y, *_) = _ends(operation) if operation.op == "mul" else None, operation.outputs
    operands = [i for i in operation.inputs if i is not None and i.value is None]
    if ends is None or len(operands) < 2 or y.type.nbytes < LEAST_BYTES:
        return None
    for x, numbers in (operands, operands[::-1]):
        channels = numbers.type.size
        if x.type == y.type and channels > 1 and x.type.shape[-1:] == numbers.type.shape[-1:] == (channels,):
            return Joint((x, numbers), partial(_multiplied, operation, ends))
    return None


def _multiplied(operation: Operation, ends: Ends) -> Callable[[Array, Array], Array]:
    """Return what multiplies channels, in a loop where there is one."""
    loops, compute, shape = real_loops(), operation.direct(), operation.outputs[0].type.shape
    assert compute is not None
    if loops is None:
        return compute
    rows, together = _in_rows(shape)
    nothing = np.full(rows[1], -0.0, np.float32)

    def multiply(x: Array, numbers: Array) -> Array:
        result, factor = empty(shape, np.float32), np.tile(numbers.reshape(-1), together)
        loops.scaled(x.reshape(rows), factor, nothing, ends, result.reshape(rows))
        return result

    return multiply


def _in_rows(shape: Shape) -> tuple[tuple[int, int], int]:
    """Return a shape [..., C] as rows of several pixels, and how many these are."""
    channels, pixels = shape[-1], math.prod(shape[:-1])
    together = equal_rows(pixels, channels)
    return (pixels // together, together * channels), together


def _with_fewer_channels(operation: Operation) -> Operand | None:
    """Return the tensor behind whose channels an operation puts zeros, and nothing else; else None."""
    if operation.definition is not basic.pad or operation.attrs["value"] != 0:
        return None
    (x,), (*others, (before, _)) = operation.inputs, operation.attrs["paddings"]
    only_behind = before == 0 and not any(map(any, others))
    return x if only_behind and x is not None and x.value is None else None


def _added(operation: Operation, ends: Ends, pad: Operation | None) -> Callable[..., Array]:
    """Return what adds two tensors, in a loop where there is one."""
    loops, compute, shape = real_loops(), operation.direct(), operation.outputs[0].type.shape
    padded = (lambda b: b) if pad is None else pad.direct()
    assert compute is not None and padded is not None
    if loops is None:
        return lambda a, b: compute(a, padded(b))
    pixels = 1 if pad is None else math.prod(shape[:-1])
    rows = pixels, math.prod(shape) // pixels

    def add(a: Array, b: Array) -> Array:
        result = empty(shape, np.float32)
        narrow = rows if pad is None else (pixels, b.shape[-1])
        loops.added(a.reshape(rows), b.reshape(narrow), ends, result.reshape(rows))
        return result

    return add


def _by_channel(line: _Line, operation: Operation, before: Operation | None) -> Callable[[Array], Array]:
    """Return what computes a line, in a loop where there is one, else by one operation after the other."""
    loops, shape = real_loops(), operation.outputs[0].type.shape
    if loops is None:
        first, second = None if before is None else _of_x(before), _of_x(operation)
        return second if first is None else lambda x: second(first(x))
    rows, together = _in_rows(shape)
    # A sum with -0 leaves a product as it is.
    summand = np.full_like(line.summand, -0.0) if line.is_product else line.summand
    factor, summand = (np.tile(numbers, together) for numbers in (line.factor, summand))

    def compute(x: Array) -> Array:
        result = empty(shape, np.float32)
        loops.scaled(x.reshape(rows), factor, summand, line.ends, result.reshape(rows))
        return result

    return compute


def _of_x(operation: Operation) -> Callable[[Array], Array]:
    """Return an operation on a tensor and constants as a function of the tensor."""
    compute, (a, b) = operation.direct(), operation.inputs
    assert compute is not None and a is not None and b is not None
    if a.value is None:
        return lambda x: compute(x, b.value)
    return lambda x: compute(a.value, x)
