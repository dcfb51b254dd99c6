"""Sums and products that the CPU backend computes in one loop, where numpy needs several passes.

They are a few sums and products with a number for each channel, one after the other, as batch normalisation
is where it stands before a layer; such a product, such a sum, and a sum of two tensors, if they clamp their
results; a sum with a tensor that gets further channels of zeros before; and a product of an image with
computed numbers, as in squeeze and excitation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from gpunn.graph.consumers import consumers
from gpunn.graph.graph import Graph
from gpunn.graph.operation import Operand, Operation
from gpunn.graph.prepared import Joint
from gpunn.ops.compiled import equal_rows, real_loops
from gpunn.ops.compiled.capture import of_loops
from gpunn.ops.compiled.sharing import rows_divided, whole
from gpunn.ops.contraction.prepared import UNBOUNDED, Ends, clamp_ends
from gpunn.ops.elementwise.gates import LOOPED, Write
from gpunn.ops.elementwise.unary import ACTIVATIONS
from gpunn.ops.memory import empty
from gpunn.ops.movement import basic
from gpunn.passes.scale import change_of
from gpunn.types import Array, DType, Shape

# (x + a) b c + d, with a number for each channel; what is absent is None
_Numbers = tuple[Array | None, Array | None, Array | None, Array | None]
_FIRST, _FACTORS, _LAST = 0, (1, 2), 3
_NONE: _Numbers = (None, None, None, None)
_NEUTRAL = np.array((-0.0, 1.0, 1.0, -0.0), np.float32)  # x - 0 is x, also if that is -0


class _Line(NamedTuple):
    """A function of x by some operations, one after the other, which clamps its results to `ends`.

    activate: writes another activation of the last operation, which has a loop, to the results.
    """

    x: Operand
    numbers: _Numbers
    ends: Ends
    operations: tuple[Operation, ...]
    activate: Write | None = None

    @property
    def linear(self) -> bool:
        """Tell whether there is no activation."""
        return self.ends is UNBOUNDED and self.activate is None

    def rows(self) -> Array:
        """Return the numbers as the loop takes them."""
        channels, (first, _, second, _) = self.x.type.shape[-1], self.numbers
        chosen = (_FACTORS[0], _LAST) if first is None and second is None else range(len(self.numbers))
        pairs = ((self.numbers[k], _NEUTRAL[k]) for k in chosen)
        return np.stack([np.full(channels, neutral) if n is None else n for n, neutral in pairs])


def joints(model: Graph) -> Mapping[Operation, Joint]:
    """Return the operations that one loop computes, by the last of them."""
    readers, results = consumers(model), model.results
    private: dict[Operand, Operation] = {}
    lines: dict[Operand, _Line] = {}
    found: dict[Operation, Joint] = {}
    for operation in model.operations:
        for y in operation.outputs:
            if y not in results and len(readers.get(y, ())) == 1:
                private[y] = operation
        line = _line(operation, lines)
        if line is None:
            joint = _two_tensors(operation, private) or _product_by_channel(operation)
            if joint is not None:
                found[operation] = joint
            continue
        *before, _ = line.operations
        if before:
            found.pop(before[-1], None)
        if before or not line.linear:
            found[operation] = Joint((line.x,), partial(_by_channel, line), tuple(before))
        if line.linear and operation.outputs[0] in private:
            lines[operation.outputs[0]] = line
    return found


def _line(operation: Operation, lines: Mapping[Operand, _Line]) -> _Line | None:
    """Return what a sum or a product of float32 with constants computes, with those before it if possible.

    None for other operations. lines: those that nothing else reads.
    """
    computed = [i for i in operation.inputs if i is not None and i.value is None]
    if operation.definition.algebra.affine is None or len(computed) != 1:
        return None
    activate = _looped(operation)
    ends = _ends(operation) if activate is None else UNBOUNDED
    if ends is None:
        return None
    (x,), (y,) = computed, operation.outputs
    change = change_of(operation, x) if x.type == y.type else None
    if change is None:
        return None
    factor, summand = (numbers.astype(np.float32) for numbers in change)
    if not (np.array_equal(factor, change[0]) and np.array_equal(summand, change[1])):
        return None
    before = lines.get(x)
    if before is not None:
        longer = _with(before.numbers, factor, summand)
        if longer is not None:
            return _Line(before.x, longer, ends, (*before.operations, operation), activate)
    numbers = _with(_NONE, factor, summand)
    return None if numbers is None else _Line(x, numbers, ends, (operation,), activate)


def _with(numbers: _Numbers, factor: Array, summand: Array) -> _Numbers | None:
    """Return the numbers of a line times a factor, which is 1 or -1 before a summand; None without room."""
    if not summand.any() and (factor == 1).all():  # a sum with 0, which makes -0 another 0
        return None
    used = max((k for k, n in enumerate(numbers) if n is not None), default=-1)
    free = next((k for k in _FACTORS if k > used), None)
    new: dict[int, Array] = {}
    if summand.any():
        if used == _LAST or not (np.abs(factor) == 1).all():
            return None
        new[_FIRST if used < _FIRST and (factor == 1).all() else _LAST] = summand
    if not summand.any() or (factor != 1).any():
        if free is None:
            return None
        new[free] = factor
    a, b, c, d = (new.get(k, n) for k, n in enumerate(numbers))
    return a, b, c, d


def _of_reals(operation: Operation) -> bool:
    """Tell whether an operation has one result, of float32 alone."""
    operands = [*operation.inputs, *operation.outputs]
    if any(o is None or o.type.dtype is not DType.FLOAT32 for o in operands) or len(operation.outputs) != 1:
        return False
    return operation.direct() is not None and not operation.custom


def _looped(operation: Operation) -> Write | None:
    """Return what writes the activation of an operation on float32 in a loop; None for other ones."""
    activation: Any = operation.attrs.get("activation")
    line = ACTIVATIONS.get(activation) if isinstance(activation, str) and _of_reals(operation) else None
    fused = None if line is None else line.fused
    return None if fused is None or fused.write not in LOOPED else fused.write


def _ends(operation: Operation) -> Ends | None:
    """Return what an operation of float32 clamps its results to; None for other operations."""
    if not _of_reals(operation):
        return None
    activation: Any = operation.attrs.get("activation")
    return clamp_ends(activation) if activation is None or isinstance(activation, str) else None


def _two_tensors(operation: Operation, private: Mapping[Operand, Operation]) -> Joint | None:
    """Return a sum or a product of two tensors of one shape; in a sum one may get channels just before."""
    if operation.op not in ("add", "mul"):
        return None
    ends, operands = _ends(operation), [i for i in operation.inputs if i is not None and i.value is None]
    types = {o.type for o in (*operands, *operation.outputs)}
    if ends is None or len(types) > 1 or len(operands) < 2 or not operation.outputs[0].type.rank:
        return None
    for a, b in (operands, operands[::-1]):
        pad = private.get(b)
        x = None if pad is None or operation.op != "add" else _with_fewer_channels(pad)
        if pad is not None and x is not None:
            return Joint((a, x), partial(_combined, operation, ends, pad), (pad,))
    return Joint(tuple(operands), partial(_combined, operation, ends, None))


def _product_by_channel(operation: Operation) -> Joint | None:
    """Return a product of a tensor with one that has a number for each channel."""
    ends, (y, *_) = _ends(operation) if operation.op == "mul" else None, operation.outputs
    operands = [i for i in operation.inputs if i is not None and i.value is None]
    if ends is None or len(operands) < 2:
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
    line = np.full((2, rows[1]), _NEUTRAL[_LAST])  # of one run at a time
    parts, nbytes = rows_divided(rows[0], math.prod(shape)), line.itemsize * shape[-1]
    copies = whole(together), line.reshape(-1).view(np.uint8)
    places = np.zeros(1, np.int64), np.zeros(1, np.int64), (together, nbytes), (0, nbytes)

    def multiply(x: Array, numbers: Array) -> Array:
        result, (all_factors, factors) = empty(shape, np.float32), copies
        loops.copy_rows(all_factors, numbers.reshape(-1).view(np.uint8), *places, factors)
        loops.scaled(parts, x.reshape(rows), line, ends, result.reshape(rows))
        return of_loops(result)

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


def _combined(operation: Operation, ends: Ends, pad: Operation | None) -> Callable[..., Array]:
    """Return what adds or multiplies two tensors, in a loop where there is one."""
    loops, compute, shape = real_loops(), operation.direct(), operation.outputs[0].type.shape
    padded = (lambda b: b) if pad is None else pad.direct()
    assert compute is not None and padded is not None
    if loops is None:
        return lambda a, b: compute(a, padded(b))
    pixels = math.prod(shape[:-1])
    rows = _in_rows(shape)[0] if pad is None else (pixels, shape[-1])
    parts = rows_divided(rows[0], math.prod(shape))

    loop = loops.added if operation.op == "add" else loops.multiplied

    def compute_both(a: Array, b: Array) -> Array:
        result = empty(shape, np.float32)
        narrow = rows if pad is None else (pixels, b.shape[-1])
        loop(parts, a.reshape(rows), b.reshape(narrow), ends, result.reshape(rows))
        return of_loops(result)

    return compute_both


def _by_channel(line: _Line) -> Callable[[Array], Array]:
    """Return what computes a line, in a loop where there is one, else by one operation after the other."""
    loops, shape = real_loops(), line.operations[-1].outputs[0].type.shape
    if loops is None:
        return _one_by_one([_of_x(operation) for operation in line.operations])
    rows, together = _in_rows(shape)
    numbers, parts = np.tile(line.rows(), together), rows_divided(rows[0], math.prod(shape))

    def compute(x: Array) -> Array:
        result = empty(shape, np.float32)
        loops.scaled(parts, x.reshape(rows), numbers, line.ends, result.reshape(rows))
        if line.activate is not None:
            line.activate(result, result)
        return of_loops(result)

    return compute


def _one_by_one(steps: Sequence[Callable[[Array], Array]]) -> Callable[[Array], Array]:
    def compute(x: Array) -> Array:
        for step in steps:
            x = step(x)
        return x

    return compute


def _of_x(operation: Operation) -> Callable[[Array], Array]:
    """Return an operation on a tensor and constants as a function of the tensor."""
    compute, (a, b) = operation.direct(), operation.inputs
    assert compute is not None and a is not None and b is not None
    if a.value is None:
        return lambda x: compute(x, b.value)
    return lambda x: compute(a.value, x)
