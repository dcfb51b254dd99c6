"""Constant folding: operations on constants only are computed once, by their reference."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from gpunn.graph.bodies import with_bodies
from gpunn.graph.exchange import replace_inputs
from gpunn.graph.graph import Graph
from gpunn.graph.operation import Lifetime, Operand, Operation
from gpunn.ops.elementwise.quantize import dequantize
from gpunn.types import DType

# A small file can ask for huge constants (a pad, a broadcast), so there is a limit to what is kept:
# beyond it an operation stays and runs like any other.
MAX_FOLDED_BYTES = 16 << 20
MAX_READ_BYTES = 256 << 20  # by what is folded: many operations may share a large constant


@dataclass(slots=True)
class _Allowance:
    """The bytes that may still be kept and read, by a model and the bodies in it together."""

    kept: int
    read: int
    dequantised: set[Operand | None] = field(default_factory=set)

    def grants(self, operation: Operation) -> bool:
        """Tell whether an operation may be folded; if so, it counts."""
        size = sum(max(o.type.nbytes, 4 * o.type.size) for o in operation.outputs)  # arithmetic is wider
        read = sum(i.type.nbytes for i in operation.inputs if i is not None)
        if operation.definition is dequantize and operation.inputs[0] not in self.dequantised:
            self.dequantised.add(operation.inputs[0])
            return True
        if size > self.kept or read > self.read:
            return False
        self.kept -= size
        self.read -= read
        return True


def fold_constants(model: Graph) -> Graph:
    """Replace operations on constants by their results, up to MAX_FOLDED_BYTES in all, bodies included.

    What a constant comes to when it is dequantised for the first time does not count: the file holds a
    quarter of it.
    Other shapes of constants take no memory, so they do not count either.
    A result of the model stays an operation's output; so does the result of an op that is `unbounded`,
    which networks do not apply to constants. Variables
    that nothing updates are constants.
    """
    constants = settled(model)
    folded = _fold(model, _Allowance(MAX_FOLDED_BYTES, MAX_READ_BYTES).grants, dict(constants))
    for variable in constants:
        del folded.variables[variable]
    return folded


def fold_aliases(model: Graph) -> Graph:
    """Let operations read constants instead of other shapes of them, which passes may have made."""
    known: dict[Operand, Operand] = {}
    folded = _fold(model, lambda operation: False, known)
    return folded if known else model


def settled(model: Graph) -> dict[Operand, Operand]:
    """Make a constant for each variable that keeps its first value, unless that is zeros, which take no
    memory.
    """
    return {
        variable: Operand(variable.name, variable.type, Lifetime.CONSTANT, value)
        for variable, value in model.variables.items()
        if variable not in model.updates and variable not in model.results and value.flags.c_contiguous
    }


def _fold(model: Graph, grants: Callable[[Operation], bool], known: dict[Operand, Operand]) -> Graph:
    """Add to `known` what can be computed of constants: aliases of them, and what else is granted.

    Plans find a tensor's bytes through its aliases, but not those of a constant: so its alias is one, even
    where the operation stays because its output is a result of the model.
    """
    kept: list[Operation] = []
    wanted = model.results
    for operation in model.operations:
        operation = replace_inputs(operation, known)
        inner, alias = wanted.isdisjoint(operation.outputs), operation.definition.alias
        folded = (alias or inner) and _constant(operation) and (alias or grants(operation))
        if folded:
            known.update(_results(operation))
        if not (folded and inner):
            kept.append(with_bodies(operation, lambda body: _fold(body, grants, {})))
    return model.with_operations(kept)


def _constant(operation: Operation) -> bool:
    """Tell whether the results can be known soon; a string, for example, may be of any length."""
    inputs = [i for i in operation.inputs if i is not None]
    quick = not operation.definition.unbounded and all(i.type.dtype is not DType.STRING for i in inputs)
    return quick and all(i.value is not None for i in inputs)


def _results(operation: Operation) -> dict[Operand, Operand]:
    """Make a constant operand for each output."""
    values = operation.stored(operation.evaluate([None if i is None else i.value for i in operation.inputs]))
    return {
        old: replace(old, lifetime=Lifetime.CONSTANT, value=value, open=None)
        for old, value in zip(operation.outputs, values, strict=True)
    }
