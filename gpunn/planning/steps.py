"""Elementwise operations as steps that kernels of others compute, before a store or behind a load."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from gpunn.graph.operation import Operation
from gpunn.kernel import Kernel, Param, Read
from gpunn.planning.places import row_params, whole
from gpunn.pointwise import Appended, Formula, Reach
from gpunn.types import DType, Tensor

_PARAM = re.compile(r"\bp\.(\w+)")
_REALS = DType.FLOAT32, DType.FLOAT16
_CALL = re.compile(r"\b([a-z]\w*)\(")
# Functions of WGSL that are a few instructions of a processor.
_QUICK = re.compile("abs|ceil|clamp|f32|floor|fract|max|min|select|sign|trunc")


@dataclass(frozen=True, slots=True)
class Step:
    """An elementwise operation: its place among the placements, its kernel, and for each operand of Pointwise
    the number of the value that it is, or None for a read.
    """

    place: int
    operation: Operation
    kernel: Kernel
    values: Mapping[str, int | None]

    @property
    def libraries(self) -> tuple[str, ...]:
        """Return the libraries that its functions call; without functions, the kernel has its body's."""
        return self.kernel.libraries if self.kernel.functions else ()

    @property
    def is_beside(self) -> bool:
        """Tell whether it reads tensors alone, no value of the chain."""
        return not any(number is not None for number in self.values.values())

    @property
    def is_fixed_point(self) -> bool:
        """Tell whether it computes integers of several scales, or as needs_more says."""
        tensors = [o for o in (*self.operation.inputs, *self.operation.outputs) if o is not None]
        integers = any(o.type.dtype not in _REALS for o in self.operation.outputs)
        return integers and (self.needs_more or len({o.type.quantization for o in tensors}) > 1)

    @property
    def needs_more(self) -> bool:
        """Tell whether it calls functions of a library, or reads a table."""
        return bool(self.libraries or any(r.value is not None for r in self.kernel.reads))

    @property
    def subtracts(self) -> bool:
        """Tell whether it subtracts an operand of reals."""
        return self.kernel.pointwise is not None and -1 in self.kernel.pointwise.signs

    def cancels(self, before: Sequence[Step]) -> bool:
        """Tell whether it may take a value of the chain from itself; `before`: the steps up to this one.

        Compilers make 0 of x - x, which is NaN for infinity and NaN; of two loads they do not, and neither of
        a load and a value. The same value may have two numbers, and an operand may have been subtracted
        before: max(x, x) - x, x + (c - x).
        """
        given = [number for number in self.values.values() if number is not None]
        numbers = [number for number in given if not number or not before[number - 1].is_beside]
        if len(numbers) < 2 or self.kernel.pointwise is None or not self.kernel.pointwise.signs:
            return False
        return self.subtracts or any(before[number - 1].subtracts for number in numbers if number)

    @property
    def is_quick(self) -> bool:
        """Tell whether its functions are a few instructions: arithmetic and comparisons, but no exp()."""
        functions = self.kernel.functions
        called = {name for f in functions.values() for name in _CALL.findall(f.expression)}
        return not self.libraries and all(map(_QUICK.fullmatch, called - functions.keys()))


@dataclass(frozen=True, slots=True)
class Chain:
    """The kernels of an operation before others were appended to it, and the steps of these in order."""

    kernels: tuple[Kernel, ...]
    steps: tuple[Step, ...]


def is_elementwise(kernel: Kernel) -> bool:
    """Tell whether a kernel computes each element from those at the same place, of tensors in one piece."""
    if kernel.pointwise is None or not all(whole(w) and w.output == 0 for w in kernel.writes):
        return False
    plain = all(r.segments is None and r.window is None and r.pack is None for r in kernel.reads)
    own = all(isinstance(r.operand, int) for r in kernel.reads if r.name in kernel.pointwise.operands)
    return plain and own and not kernel.generated


def outside(step: Step) -> Iterator[Read]:
    """Yield the reads of a step that are no values of the chain."""
    return (read for read in step.kernel.reads if read.present and step.values.get(read.name) is None)


def read_of(read: Read, step: Step, prefix: str, width: int) -> Read:
    """Return a read of an operation as one of the kernel that computes it."""
    pointwise = step.kernel.pointwise
    assert pointwise is not None
    if read.name not in pointwise.operands:
        return replace(read, name=f"{prefix}{read.name}")
    assert isinstance(read.operand, int)
    operand: Tensor | None = step.operation.inputs[read.operand]
    reach = Reach.of(pointwise.operands[read.name], step.operation.outputs[0].type.size)
    return replace(read, name=f"{prefix}{read.name}", operand=operand, width=width if reach.together else 1)


def params_of(step: Step, prefix: str) -> dict[str, Param]:
    """Return the parameters that the functions of a step read, and those that say where its operands lie."""
    kernel, pointwise = step.kernel, step.kernel.pointwise
    assert pointwise is not None
    named = {name for f in kernel.functions.values() for name in _PARAM.findall(f.expression)}
    found = {f"{prefix}{name}": value for name, value in kernel.params.items() if name in named}
    for name, repeat in pointwise.operands.items():
        if step.values[name] is None:
            reach = Reach.of(repeat, step.operation.outputs[0].type.size)
            if reach not in (Reach.DENSE, Reach.FIRST):
                found[f"{prefix}{name}_period"] = repeat.period
            if reach in (Reach.SPREAD, Reach.SHARED):
                found[f"{prefix}{name}_inner"] = repeat.inner
            if reach.in_parts:
                found[f"{prefix}{name}_every"] = repeat.every
            if reach.padded:
                found[f"{prefix}{name}_row"] = repeat.row
                found[f"{prefix}{name}_before"] = repeat.before
                found[f"{prefix}{name}_fill"] = repeat.fill
    for read in outside(step):
        if read.rows is not None:
            found.update(row_params(f"{prefix}{read.name}", read.rows))
    return found


def statement(step: Step, prefix: str) -> Appended:
    """Return what stores or loads compute for a step."""
    kernel, pointwise, result = step.kernel, step.kernel.pointwise, step.operation.outputs[0].type
    assert pointwise is not None
    dtypes = {"": result.dtype}
    for read in kernel.reads:
        operand = step.operation.inputs[read.operand] if isinstance(read.operand, int) else None
        table = None if read.value is None else DType.of(read.value.dtype)
        dtypes[read.name] = (table or result.dtype) if operand is None else operand.type.dtype
    formulas = []
    for name, function in kernel.functions.items():
        of = (*(function.of or ("",) * len(function.params)), function.gives)
        formulas.append(Formula(name, function.params, function.expression, tuple(dtypes[o] for o in of)))
    repeats = pointwise.operands.items()
    values = tuple((name, n) for name, n in step.values.items() if n is not None)
    reads = [(name, Reach.of(r, result.size)) for name, r in repeats if step.values[name] is None]
    return Appended(
        prefix,
        pointwise.expression,
        tuple(formulas),
        values,
        tuple((name, dtypes[name], reach) for name, reach in reads),
        result.dtype,
    )
