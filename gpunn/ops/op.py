"""The declaration of an op: its Facets, @op, and the Op that they make."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, fields
from typing import Any

from gpunn.kernel import Kernels
from gpunn.ops.accuracy import PROMISE, Accuracy
from gpunn.ops.algebra import UNSTATED, Algebra
from gpunn.ops.call import Call, Infer
from gpunn.ops.expansion import Expand
from gpunn.ops.filter import Filter
from gpunn.ops.gradient import Gradient
from gpunn.ops.guard import Guard
from gpunn.ops.parts import Divide, by_axes
from gpunn.rows import Rows, Walk
from gpunn.types import Array, DType

EIGHT_BITS = (DType.UINT8, DType.INT8)
REQUIRED: Any = inspect.Parameter.empty

KernelFunction = Callable[[Call], Kernels]
Prepare = Callable[[Call], Callable[..., Any] | None]
Bind = Callable[..., Callable[[Array], Any]]  # of a call and its constants
Flops = Callable[[Call], int]
Places = Callable[[Call], Sequence[Rows | Walk | None]]
Sources = Callable[[Call], Sequence[Rows | None]]


@dataclass(frozen=True, slots=True)
class Quantized:
    """An op's integer arithmetic on quantised tensors.

    `reference(call, *arrays)` works on the stored integers and returns stored integers; scales and zero
    points are in the call's types. `prepare(call)` returns the same as a function of the arrays, for many
    runs, and `bind` as that of Facets gives dense arrays as they are stored. `kernel` gives the same bits on
    the GPU. `check` raises ModelError for scales and zero points, the result's included, that the arithmetic
    is not defined for. `dtypes`: of the first quantised tensor, input or result, for which all this holds;
    others go through reals. `plain`: it serves for the same integers without a scale, too. `mixed`: which
    types its other operands have, reals among them, is said by the op itself.
    """

    reference: Callable[..., Any]
    kernel: KernelFunction | None = None
    check: Callable[[Call], Any] | None = None
    dtypes: tuple[DType, ...] = EIGHT_BITS
    plain: bool = False
    mixed: bool = False
    prepare: Callable[[Call], Callable[..., Any]] | None = None
    bind: Bind | None = None

    @classmethod
    def prepared(
        cls,
        prepare: Callable[[Call], Callable[..., Any]],
        kernel: KernelFunction | None = None,
        check: Callable[[Call], Any] | None = None,
        dtypes: tuple[DType, ...] = EIGHT_BITS,
        bind: Bind | None = None,
    ) -> Quantized:
        """Return the arithmetic that `prepare` states, and for constants `bind`."""
        reference = lambda call, *arrays: prepare(call)(*arrays)  # noqa: E731
        return cls(reference, kernel, check, dtypes, prepare=prepare, bind=bind)


@dataclass(frozen=True, slots=True)
class Facets:
    """The statements of an op about itself, beside its meaning.

    * infer: the types of the results, from those of the operands; raises ModelError.
    * kernel: the GPU form, or several candidates; may raise Unsupported.
    * expand: writes a call in other ops: from the call, an Expansion and the operands to the results. May
      raise Unsupported; the op then runs by its kernel if it has one, and else on the host, by its reference.
    * rewrite: as `expand`, but behind the fusions, which see the op itself: other ops that compute a call
      sooner than its kernel, or its reference. It raises Unsupported where they do not.
    * name: the op's name, where it is not the reference's.
    * fusible: takes the extra attribute `activation`, the name of an activation applied to the result, which
      shares no memory with an operand.
    * alias: the result is the first input's bytes under another shape or type; implies `raw`.
    * host_reason: why there is no kernel.
    * dtypes: of operands without a scale, on which importers may count, if not only on float32, int32, int64
      and bool: float16, and integers of 8 and 16 bits that stand for themselves.
    * guards: which values must be checked before it runs.
    * quantized: its integer arithmetic; without it the op works on dequantised values, unless it is `raw`.
    * raw: it only moves elements, whatever they mean.
    * strings: takes string tensors as well.
    * overwrites: its first kernel copies the first operand, and the others write the rest of the result.
    * places: where the result of a call has the elements of each operand as they are, if it does. The kernels
      that read such an operand only copy it there.
    * sources: where the first operand of a call has the elements of each result as they are, if it does. The
      kernels that write such a result only copy it from there.
    * precise: what it reads and writes is float32, in a relaxed compilation too.
    * flops: additions and multiplications of a call, where that is not one for each element of the results.
    * unbounded: what it reads and writes does not bound its time, so it is never folded into a constant.
    * algebra: what passes may rely on when they rewrite graphs.
    * divide: computes a range of the result's rows, where the axes of `algebra` do not say how.
    * filter: how it multiplies its first operand with its second one.
    * accuracy: how far its results in float32 may be from the exact ones.
    * prepare: the reference of a call as a function of the arrays, for many runs: from dense arrays to dense
      ones of the results' dtypes; for scalars also to numpy's. With the activation where the op has a filter,
      elsewhere without. Of tensors that are neither quantised nor float16; the bits are the reference's, or
      where it multiplies matrices as near to the exact results. May return None: then the reference serves.
    * bind: what prepare gives as a function of the first operand alone, for constants as the other ones. It
      is called in the first run: with its compiled loops, if there are any.
    * gradient: the gradients of a loss with respect to its operands, from those with respect to its results,
      written in ops. Without it an op that is written in other ops (`expand`) has the gradients of these.
    * formula: writes a call in other ops, as `expand` does, but only where gradients go back through it.
    """

    infer: Infer
    kernel: KernelFunction | None = None
    _: KW_ONLY
    expand: Expand | None = None
    rewrite: Expand | None = None
    name: str = ""
    fusible: bool = False
    alias: bool = False
    host_reason: str = ""
    dtypes: tuple[DType, ...] = ()
    guards: tuple[Guard, ...] = ()
    quantized: Quantized | None = None
    raw: bool = False
    strings: bool = False
    overwrites: bool = False
    places: Places | None = None
    sources: Sources | None = None
    precise: bool = False
    flops: Flops | None = None
    unbounded: bool = False
    algebra: Algebra = UNSTATED
    divide: Divide | None = None
    filter: Filter | None = None
    accuracy: Accuracy = PROMISE
    prepare: Prepare | None = None
    bind: Bind | None = None
    gradient: Gradient | None = None
    formula: Expand | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Op(Facets):
    """One operation: meaning (numpy), types (infer) and GPU form (kernel), side by side; see Facets.

    `reference` computes in the dtype of its inputs (float64 in gives the oracle), its positional
    parameters are the operands (default None: optional; *args: any number) and its keyword-only
    parameters are the attributes, with their defaults.
    """

    reference: Callable[..., Any]
    attributes: Mapping[str, Any]
    operands: tuple[str, ...]
    optional: int
    variadic: bool

    def count_flops(self, call: Call) -> int:
        """Count additions and multiplications of a call, by its textbook formula; moving elements counts as
        0.
        """
        if self.flops is not None:
            return self.flops(call)
        return 0 if self.raw else sum(t.size for t in call.outputs)

    @property
    def division(self) -> Divide | None:
        """Return how it computes a range of its result's rows; None if it cannot."""
        return self.divide or (None if self.algebra.axes is None else by_axes(self.algebra.axes))

    def check_arity(self, call: Call) -> None:
        """Raise ModelError unless the number of inputs fits and every mandatory one is there."""
        required = len(self.operands) - self.optional
        got = len(call.inputs)
        if got < max(required, 1) or (got > len(self.operands) and not self.variadic):
            call.fail(f"takes inputs ({', '.join(self.operands)}), got {got}")
        for index, found in enumerate(call.inputs):
            if found is None and not required <= index < len(self.operands):
                call.fail(f"input {index} must not be absent")

    def check_strings(self, call: Call) -> None:
        """Raise ModelError for a string tensor, unless the op says that it takes them."""
        for index, found in enumerate(call.inputs):
            if found is not None and found.dtype is DType.STRING and not self.strings:
                call.fail(f"takes no strings, input {index} is {found}")

    def complete(self, call: Call, attrs: Mapping[str, Any]) -> dict[str, Any]:
        """Fill in the defaults of attributes; raise ModelError for unknown or missing ones."""
        known = {**self.attributes, "activation": None} if self.fusible else dict(self.attributes)
        count = len(known)
        known.update(attrs)
        if len(known) > count:
            unknown = list(known)[count:]
            call.fail(f"has no attribute {', '.join(sorted(unknown))}")
        missing = [k for k, v in known.items() if v is REQUIRED]
        if missing:
            call.fail(f"needs attribute {', '.join(sorted(missing))}")
        return known


@dataclass(frozen=True, slots=True)
class op(Facets):  # noqa: N801 (a decorator)
    """Declare an op: a decorator of its numpy reference, made of its Facets."""

    def __call__(self, reference: Callable[..., Any]) -> Op:
        """Make the Op; operands and attributes are read from the reference's signature."""
        params = inspect.signature(reference).parameters.values()
        positional = [p for p in params if p.kind is not inspect.Parameter.KEYWORD_ONLY]
        stated: dict[str, Any] = {f.name: getattr(self, f.name) for f in fields(Facets)}
        stated["name"] = self.name or reference.__name__
        stated["raw"] = self.raw or self.alias
        return Op(
            **stated,
            reference=reference,
            attributes={p.name: p.default for p in params if p.kind is inspect.Parameter.KEYWORD_ONLY},
            operands=tuple(p.name for p in positional),
            optional=sum(p.default is None for p in positional),
            variadic=any(p.kind is inspect.Parameter.VAR_POSITIONAL for p in positional),
        )


def matrices(*operands: int) -> Flops:
    """Make Op.flops for the product of every row of x with each of these matrices that is there."""

    def flops(call: Call) -> int:
        present = (call.input(k).size for k in operands if call.has(k))
        return 2 * math.prod(call.x.shape[:-1]) * sum(present)

    return flops


def as_tuple(result: Array | tuple[Array, ...]) -> tuple[Array, ...]:
    """Return a reference's result as a tuple of arrays."""
    return result if isinstance(result, tuple) else (result,)
