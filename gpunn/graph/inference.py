"""The call of an operation that is added to a graph, and the types of its results."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gpunn.errors import GpunnError, ModelError
from gpunn.graph.given import expect_quantization
from gpunn.graph.operation import Lifetime, Operand
from gpunn.ops import OPS
from gpunn.ops.call import Call, ResultsNeededError, ValueNeededError
from gpunn.ops.op import Op
from gpunn.types import Array, OpenShape, Quantization, TensorType, bounded


@dataclass(frozen=True, slots=True)
class Declared:
    """Declarations about an operation's results, see Graph.add: names, quantisations, shapes, hybrid."""

    names: tuple[str, ...] = ()
    quantization: tuple[Quantization | None, ...] = ()
    open: tuple[OpenShape | None, ...] = ()
    hybrid: bool = False

    def quantized(self, call: Call, types: Sequence[TensorType]) -> tuple[TensorType, ...]:
        """Give types the declared quantisations, if there are any; ModelError for a wrong number of them."""
        if self.quantization and len(self.quantization) != len(types):
            call.fail(f"has {len(types)} results, got quantisations for {len(self.quantization)}")
        if not self.quantization:
            return tuple(types)
        for type, found in zip(types, self.quantization, strict=True):
            if found is not None:
                expect_quantization(call.where, found, type.shape)
        return tuple(replace(t, quantization=q) for t, q in zip(types, self.quantization, strict=True))

    def operands(self, call: Call, types: Sequence[TensorType], number: int) -> tuple[Operand, ...]:
        """Make the results of operation `number` of a graph."""
        made = []
        for k, type in enumerate(types):
            name = self.names[k] if k < len(self.names) else f"{call.op}_{number}:{k}"
            open = self.open[k] if k < len(self.open) else None
            type = bounded(name, type)
            if open is not None and not open.admits(type.shape):
                open = None  # what a file declares may contradict its operations
            made.append(Operand(name, type, Lifetime.TEMPORARY, open=open, hybrid=self.hybrid))
        return tuple(made)


def lookup(op: str | Op) -> Op:
    """Return the op of a name, or the Op itself.

    Raises ModelError for an unknown name, and for an Op that takes the name of another one.
    """
    if isinstance(op, Op):
        if OPS.get(op.name, op) is not op:
            raise ModelError(f"{op.name!r} is an op of gpunn, a custom one must have another name")
        return op
    if not isinstance(op, str) or op not in OPS:
        raise ModelError(f"there is no op {op!r}")
    return OPS[op]


def call_of(
    definition: Op,
    inputs: Sequence[Operand | None],
    attrs: Mapping[str, Any],
    origin: str,
    value_of: Callable[[Operand], Array | None],
) -> Call:
    """Return an operation as its op's infer sees it.

    Raises ModelError for a wrong number of inputs, and for unknown or missing attributes.
    """

    def value(index: int) -> Array | None:
        operand = inputs[index]
        return None if operand is None else value_of(operand)

    types = tuple([None if i is None else i.type for i in inputs])
    constant = tuple([i is not None and i.value is not None for i in inputs])
    full: dict[str, Any] = {}
    call = Call(definition.name, origin, types, full, constant=constant, value_of=value)
    definition.check_arity(call)
    full.update(definition.complete(call, attrs))
    return call


def inferred(definition: Op, call: Call) -> tuple[TensorType, ...]:
    """Return the types of the results. Raises what the op's infer raises.

    Of gpunn's own ops this is a GpunnError, also for attributes of a kind that no op looks for.
    """
    try:
        types = definition.infer(call)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        if OPS.get(definition.name) is not definition or isinstance(error, GpunnError):
            raise
        given = ", ".join(f"{name}={value!r}" for name, value in call.attrs.items())
        raise ModelError(f"{call.where}: attributes do not fit ({error}): {given}") from error
    found = types if isinstance(types, tuple) else (types,)
    if not all(isinstance(type, TensorType) for type in found):
        raise ModelError(f"{call.where}: its rule must return TensorTypes, got {types!r}")
    return tuple(map(_plain, found))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Inferred:
    """An operation before it is added to a graph: its call, and the types of its results."""

    call: Call
    types: tuple[TensorType, ...]


def _plain(type: TensorType) -> TensorType:
    """Return the type with Python's integers as extents: an infer that counts has numpy's."""
    if all([isinstance(n, int) for n in type.shape]):
        return type
    return type.with_shape(tuple(map(operator.index, type.shape)))


def expected(definition: Op, call: Call, count: int) -> tuple[TensorType, ...]:
    """Return the types of the results as far as they are known while shapes of inputs, or values, are not.

    They are those for inputs of the shapes that stand for unknown ones. Where the op refuses these there are
    `count` results, at least one, of the first input's dtype.
    """
    found: tuple[TensorType, ...] = ()
    try:
        return inferred(definition, call)
    except (ValueNeededError, ResultsNeededError) as needed:
        found = needed.results
    except ModelError:  # of shapes that mean nothing
        pass
    first = next(t for t in call.inputs if t is not None)
    return found or (first.with_shape(()),) * max(count, 1)
