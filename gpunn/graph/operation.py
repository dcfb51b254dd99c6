"""Operand and Operation: the parts of a graph (NNAPI's words)."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from gpunn.errors import ModelError
from gpunn.ops import OPS
from gpunn.ops.call import Call, ValueNeededError
from gpunn.ops.elementwise.activation import activate, activating
from gpunn.ops.elementwise.unary import apply_activation
from gpunn.ops.fixed_point.affine import dequantize, quantize
from gpunn.ops.guard import Guard
from gpunn.ops.op import Op, Quantized, as_tuple
from gpunn.types import Array, DType, OpenShape, TensorType

_DIRECT = (DType.FLOAT32, DType.INT32, DType.INT64, DType.BOOL)  # of prepared references
_MOVED = (*_DIRECT, DType.FLOAT16, DType.INT16, DType.INT8, DType.UINT8)  # of those that only move elements

# Computes the outputs of an operation from its inputs.
Evaluation = Callable[[Sequence[Array | None]], tuple[Array, ...]]


class Lifetime(enum.Enum):
    """The origin of an operand's value (types.hal 1.0, OperandLifeTime); VARIABLE: the run before."""

    INPUT = "input"
    CONSTANT = "constant"
    TEMPORARY = "temporary"
    VARIABLE = "variable"


@dataclass(frozen=True, slots=True, eq=False)
class Operand:
    """A tensor of the graph. Two operands are equal only if they are the same object.

    `open` is the shape as it was declared where some extents are left open: those of an input may differ from
    one run to the next; `type` has the shape that the model was built for. `hybrid`: these are the reals of a
    quantised constant that the file's operator multiplies with reals (docs/quantized.md).

    Of an input: `default` is the number that it is full of in a run that does not give it; None if it must be
    given. `rounds`: it also takes float64, rounded to its own type, integers that this holds exactly, and a
    plain number if it has one element.
    """

    name: str
    type: TensorType
    lifetime: Lifetime
    value: Array | None = None
    open: OpenShape | None = None
    hybrid: bool = False
    default: float | None = None
    rounds: bool = False

    @property
    def declared(self) -> str:
        """Return dtype and shape for people, with "?" for extents that are open: float32[?, 224, 224, 3]."""
        return str(self.type) if self.open is None else f"{self.type.dtype.value}{self.open}"

    def __repr__(self) -> str:
        return f"<{self.lifetime.value} {self.name!r} {self.declared}>"


@dataclass(frozen=True, slots=True, eq=False)
class Operation:
    """An op applied to operands; `origin` says where it stands in its file.

    `custom` is the op itself where it is none of gpunn's. `trusted`: its guards hold, so nobody asks them.
    `relaxed`: products of its float16 operands may be computed in f16 (gpunn.passes.relax).
    """

    op: str
    inputs: tuple[Operand | None, ...]
    outputs: tuple[Operand, ...]
    attrs: Mapping[str, Any]
    origin: str
    custom: Op | None = None
    trusted: bool = False
    relaxed: bool = False

    @property
    def definition(self) -> Op:
        """Return the op."""
        return self.custom or OPS[self.op]

    @property
    def activation(self) -> str | None:
        """Return the name of the activation that it applies to its result, if any."""
        found = self.attrs.get("activation")
        return found[0] if isinstance(found, tuple) else found

    @property
    def integer(self) -> bool:
        """Tell whether this is arithmetic on quantised tensors: not on reals, and not just moving elements.

        So is that on integers without a scale, by the same rules.
        """
        types = [o.type for o in (*self.inputs, *self.outputs) if o is not None]
        facet = self.definition.quantized
        plain = facet is not None and facet.plain and types[0].dtype in facet.dtypes
        return not self.definition.raw and (plain or any(t.quantization is not None for t in types))

    @property
    def facet(self) -> Quantized | None:
        """Return the op's integer arithmetic, where this is arithmetic on tensors that it is defined for."""
        facet = self.definition.quantized
        if facet is None:
            return None
        types = [o.type for o in (*self.inputs, *self.outputs) if o is not None]
        first = next((t for t in types if t.quantization is not None), types[0])
        return facet if self.integer and first.dtype in facet.dtypes else None

    def evaluate(self, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """Compute the outputs by the op's reference: reals in the inputs' dtype, quantised tensors as stored.

        float16 is computed in float32, and not rounded: that is done when a result is stored, see stored().
        """
        with np.errstate(all="ignore"):
            return tuple(map(np.asarray, self.prepared()(inputs)))

    def prepared(self) -> Evaluation:
        """Return evaluate() with everything decided that does not depend on values, for many runs.

        The results may be numpy's scalars. The caller has numpy ignore overflow and the like, by
        numpy.errstate().
        """
        call, compute = self.call(), self._computation()
        if self.custom is not None:
            compute = _protected(compute)
        guards = [guard for guard, _ in self.guarded]
        if not guards:
            return compute

        def guarded(inputs: Sequence[Array | None]) -> tuple[Array, ...]:
            for guard in guards:
                value = inputs[guard.index]
                if value is not None:
                    guard.check(call, value)
            return compute(inputs)

        return guarded

    def direct(self) -> Callable[..., Any] | None:
        """Return what computes the outputs, already as stored() gives them, from dense arrays.

        None if the op does not say how, if results are empty, or where a run checks values. The only output
        is returned by itself.
        """
        prepare, operands = self.definition.prepare, [o for o in (*self.inputs, *self.outputs) if o]
        if self.integer:
            return self._direct_integers()
        if prepare is None or self.custom or self._checked_in_runs():
            return None
        if any(o.type.dtype not in (_MOVED if self.definition.raw else _DIRECT) for o in operands):
            return None
        scalars = [o for o in self.outputs if not o.type.rank]
        if any(not o.type.size for o in self.outputs) or (scalars and len(self.outputs) > 1):
            return None
        compute = prepare(self.call())
        activation = self.activation if self.definition.fusible and not self.definition.filter else None
        if compute is None:
            return None
        if activation is not None:
            result = self.outputs[0].type
            apply = activating(activation, result.dtype.numpy, result.shape)
            # A view, for it may change what of_loops() got (gpunn.ops.compiled.capture).
            return lambda *inputs: np.asarray(apply(np.asarray(compute(*inputs)))).view()
        return (lambda *inputs: np.asarray(compute(*inputs))) if scalars else compute

    def _direct_integers(self) -> Callable[..., Any] | None:
        """Return direct() of arithmetic on quantised tensors with one result."""
        facet = self._direct_facet()
        if facet is None or facet.prepare is None:
            return None
        compute, dtype = facet.prepare(self.call()), self.outputs[0].type.dtype.numpy
        return lambda *inputs: np.asarray(compute(*inputs), dtype, order="C")

    def _direct_facet(self) -> Quantized | None:
        """Return the op's integer arithmetic where it gives one result, not empty, of any values."""
        one = len(self.outputs) == 1 and self.outputs[0].type.size and not self._checked_in_runs()
        return self.facet if one else None

    def bound(self) -> Callable[[], Callable[[Array], Any]] | None:
        """Return what makes direct() a function of the first input, whose other inputs are constants.

        None where they are not, if the op does not say how, or without direct().
        """
        if self.integer:
            facet = self._direct_facet()
            bind = None if facet is None else facet.bind
        else:
            bind = self.definition.bind
        if bind is None or self.inputs[0] is None or self.inputs[0].value is not None:
            return None
        others = self.inputs[1:]
        if any(o is not None and o.value is None for o in others):
            return None
        if not self.integer and self.direct() is None:
            return None
        return partial(bind, self.call(), *[None if o is None else o.value for o in others])

    def _computation(self) -> Evaluation:
        """Return what computes the outputs from inputs that no guard refuses."""
        facet, call = self.facet, self.call()
        if not any(o.type.size for o in self.outputs):
            return lambda _: tuple(np.empty(o.type.shape, o.type.dtype.numpy) for o in self.outputs)
        if not self.integer:
            return self._real()
        if facet is not None:
            integers = partial(facet.reference, call) if facet.prepare is None else facet.prepare(call)
            return lambda inputs: as_tuple(integers(*inputs))
        real = self._real()

        def through_reals(inputs: Sequence[Array | None]) -> tuple[Array, ...]:
            given = zip(self.inputs, inputs, strict=True)
            reals = [v if o is None or v is None else dequantize(v, o.type) for o, v in given]
            pairs = zip(self.outputs, real(reals), strict=True)
            return tuple(quantize(np.asarray(r), o.type) for o, r in pairs)

        return through_reals

    def _real(self) -> Evaluation:
        """Return what computes the outputs on reals, or on whatever an op moves."""
        definition, activation = self.definition, self.activation if self.definition.fusible else None
        apply = activate if self.custom is None else apply_activation
        attrs = {k: v for k, v in self.attrs.items() if k in definition.attributes}
        # What follows from a filter is kept, however large the tensors are.
        ready = definition.prepare(self.call()) if definition.prepare and definition.filter else None
        reference = ready or partial(definition.reference, **attrs)
        halves = any(o is not None and o.type.dtype is DType.FLOAT16 for o in self.inputs)
        widens = halves and not definition.raw  # an op that only moves elements may look at their bytes

        def compute(inputs: Sequence[Array | None]) -> tuple[Array, ...]:
            if widens:
                inputs = [v if v is None or v.dtype != np.float16 else v.astype(np.float32) for v in inputs]
            if ready is not None:  # which takes dense arrays; a transposed one is a view
                inputs = [v if v is None else np.asarray(v, order="C") for v in inputs]
            results = as_tuple(reference(*inputs))
            if self.custom is not None:
                self._expect_shapes(results)
            if activation is None or ready is not None:  # which applies it, see Facets
                return results
            return tuple(apply(np.asarray(r), activation).view() for r in results)  # as in direct()

        return compute

    def stored(self, results: Sequence[Array]) -> tuple[Array, ...]:
        """Convert what evaluate() gave for arrays of the inputs' dtypes to the outputs' dense arrays."""
        with np.errstate(over="ignore", invalid="ignore"):  # of float16
            pairs = zip(results, self.outputs, strict=True)
            return tuple(np.asarray(r, o.type.dtype.numpy, order="C") for r, o in pairs)

    def _expect_shapes(self, results: tuple[Array, ...]) -> None:
        """Raise ModelError unless results of a custom op are as its infer said: nobody else has tested it."""
        got, expected = [np.shape(r) for r in results], [o.type.shape for o in self.outputs]
        if got != expected:
            self.call().fail(f"the reference gave shapes {got}, the rule for types says {expected}")

    @property
    def guarded(self) -> tuple[tuple[Guard, Operand], ...]:
        """Return the inputs whose values must be checked before it runs; none for most operations."""
        guards = () if self.trusted else self.definition.guards
        stated = (guard for guard in guards if guard.ranges(self.call()))
        pairs = ((guard, self.inputs[guard.index]) for guard in stated)
        return tuple((guard, operand) for guard, operand in pairs if operand is not None)

    def _checked_in_runs(self) -> bool:
        """Tell whether runs must check values: computed ones, or constants that they refuse."""
        call = self.call()
        try:
            for guard, operand in self.guarded:
                if operand.value is None:
                    return True
                guard.check(call, operand.value)
        except ModelError:
            return True
        return False

    def call(self) -> Call:
        """Return what the op's kernel function sees."""
        return Call(
            op=self.op,
            origin=self.origin,
            inputs=tuple(None if i is None else i.type for i in self.inputs),
            attrs=self.attrs,
            outputs=tuple(o.type for o in self.outputs),
            constant=tuple(i is not None and i.value is not None for i in self.inputs),
            relaxed=self.relaxed,
            value_of=self._constant,
        )

    def _constant(self, index: int) -> Array | None:
        """Return the value of a constant input, None for another one."""
        found = self.inputs[index]
        return None if found is None else found.value

    @property
    def asks(self) -> bool:
        """Tell whether types of the results follow from values of inputs that are no constants."""
        try:
            self.definition.infer(self.call())
        except ValueNeededError:
            return True
        return False


def _protected(compute: Evaluation) -> Evaluation:
    """Return a computation that cannot write to its inputs: they may be a caller's, and others read them."""

    def protected(inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        views = [None if v is None else np.asarray(v).view() for v in inputs]
        for view in views:
            if view is not None:
                view.flags.writeable = False
        return compute(views)

    return protected


def custom_of(definition: Op) -> Op | None:
    """Return Operation.custom for an op."""
    return None if definition is OPS.get(definition.name) else definition
