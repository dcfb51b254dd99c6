"""How an op is declared: Op, @op, Call, and the shape rules that many ops share."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

import numpy as np

from gpunn.errors import ModelError
from gpunn.kernel import Kernel, Note, Read, Write, ceil_div
from gpunn.types import Array, DType, Shape, TensorType

EIGHT_BITS = (DType.UINT8, DType.INT8)
REQUIRED: Any = inspect.Parameter.empty


@dataclass(frozen=True, slots=True)
class Call:
    """An operation as its op sees it: types and attributes, no values.

    `constant[i]` says whether input i is known at compile time. `outputs` is empty while inferring.
    `parallel` is how many invocations occupy the device that a kernel is for.
    """

    op: str
    origin: str
    inputs: tuple[TensorType | None, ...]
    attrs: Mapping[str, Any]
    outputs: tuple[TensorType, ...] = ()
    constant: tuple[bool, ...] = ()
    parallel: int = 1

    def __getitem__(self, attr: str) -> Any:
        return self.attrs[attr]

    def input(self, index: int) -> TensorType:
        """The type of a mandatory input."""
        found = self.inputs[index]
        assert found is not None
        return found

    @property
    def x(self) -> TensorType:
        """The type of the first input."""
        return self.input(0)

    @property
    def y(self) -> TensorType:
        """The type of the first output."""
        return self.outputs[0]

    def has(self, index: int) -> bool:
        """Whether optional input `index` is there."""
        return index < len(self.inputs) and self.inputs[index] is not None

    def fail(self, what: str) -> NoReturn:
        """Raise ModelError naming this operation and where it comes from."""
        raise ModelError(f"{self.op} ({self.origin}): {what}" if self.origin else f"{self.op}: {what}")

    def expect_rank(self, index: int, *ranks: int) -> TensorType:
        """The type of input `index`, whose rank must be one of `ranks`."""
        found = self.input(index)
        if found.rank not in ranks:
            self.fail(
                f"input {index} must have rank {' or '.join(map(str, ranks))}, got shape {list(found.shape)}"
            )
        return found

    def axis(self, axis: int, rank: int) -> int:
        """A possibly negative axis made non-negative; ModelError when out of range."""
        if not -rank <= axis < rank:
            self.fail(f"axis {axis} is out of range for rank {rank}")
        return axis % rank


Infer = Callable[[Call], TensorType | tuple[TensorType, ...]]
KernelFunction = Callable[[Call], Kernel | Sequence[Kernel]]
Flops = Callable[[Call], int]


@dataclass(frozen=True, slots=True)
class Quantized:
    """An op's integer arithmetic on quantised tensors.

    `reference(call, *arrays)` works on the stored integers and returns stored integers; scales and zero
    points are in the call's types. `kernel` gives the same bits on the GPU. `check` raises ModelError for
    scales and zero points, the result's included, that the arithmetic is not defined for. `dtypes`: of the
    first quantised tensor, input or result, for which all this holds; others go through reals. `plain`: it
    serves for the same integers without a scale, too.
    """

    reference: Callable[..., Any]
    kernel: KernelFunction | None = None
    check: Callable[[Call], Any] | None = None
    dtypes: tuple[DType, ...] = EIGHT_BITS
    plain: bool = False


@dataclass(frozen=True, slots=True)
class Guard:
    """What must hold for the integers of input `index`: along its last dimension they are in `ranges`.

    Neither kernels nor references refuse a value. That is done at compilation for constants, before the run
    for an input of the model, and where the value is computed, on the host before the reference, on the
    device by a kernel that notes the first that is wrong. `what`: the integers' name in the message.
    """

    index: int
    ranges: Callable[[Call], Sequence[range]]
    what: str = "indices"

    def check(self, call: Call, value: Array) -> None:
        """Raise ModelError for the first number that is in none."""
        ranges = self.ranges(call)
        if not value.size or not ranges:
            return
        numbers = value.reshape(-1, len(ranges))
        wrong = (numbers < [r.start for r in ranges]) | (numbers >= [r.stop for r in ranges])
        if wrong.any():
            place = int(np.argmax(wrong))
            self._refuse(call, place, value.flat[place])

    def kernel(self, call: Call) -> Kernel:
        """The same on the device."""
        ranges, dtype = self.ranges(call), call.input(self.index).dtype
        noted = TensorType(DType.INT64 if dtype is DType.INT64 else DType.INT32, (2,))
        bounds = [(max(r.start, -(2**31)), min(r.stop, 2**31) - 1) for r in ranges]

        def judge(found: Array) -> None:
            place, number = found.tolist()
            if place >= 0:
                self._refuse(call, place, number)

        return Kernel(
            body="check_ranges",
            threads=(256, 1, 1),
            workgroup=(256, 1, 1),
            reads=(Read("x", self.index), Read("bound", None, value=np.array(bounds, np.int32))),
            writes=(Write("note", Note(noted, judge)),),
            params={"count": call.input(self.index).size, "ranges": len(ranges)},
            steps=ceil_div(call.input(self.index).size, 256),
            reason=f"the first of the {self.what} that is out of range is noted",
        )

    def _refuse(self, call: Call, place: int, number: int) -> NoReturn:
        ranges = self.ranges(call)
        allowed = ranges[place % len(ranges)]
        bounds = f"at most {allowed.stop - 1}" if allowed.start < 0 else f"in 0 ... {allowed.stop - 1}"
        raise ModelError(f"{call.op}: {self.what} must be {bounds}, got {number}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Op:
    """One operation: meaning (numpy), types (infer) and GPU form (kernel), side by side.

    `reference` computes in the dtype of its inputs (float64 in gives the oracle), its positional
    parameters are the operands (default None: optional; *args: any number) and its keyword-only
    parameters are the attributes. `fusible`: takes the extra attribute `activation`, the name of an
    activation applied to the result. `alias`: the output is the first input's bytes under another
    shape or type. `host_reason`: why there is no kernel. `guards`: which values must be checked before it
    runs.
    `quantized`: the op's integer arithmetic; an op without it works on dequantised values, unless it is
    `raw`: then it only moves elements, whatever they mean. `flops`: additions and multiplications of a call,
    where that is not one for each element of the results. `strings`: takes string tensors as well.
    `precise`: in a relaxed compilation, too, what it reads and writes is float32.
    """

    name: str
    reference: Callable[..., Any]
    infer: Infer
    kernel: KernelFunction | None = None
    fusible: bool = False
    alias: bool = False
    host_reason: str = ""
    guards: tuple[Guard, ...] = ()
    quantized: Quantized | None = None
    raw: bool = False
    strings: bool = False
    precise: bool = False
    flops: Flops | None = None
    attributes: Mapping[str, Any] = field(default_factory=dict)
    operands: tuple[str, ...] = ()
    optional: int = 0
    variadic: bool = False

    def work(self, call: Call) -> int:
        """Additions and multiplications of a call, by its textbook formula; of moving elements, none."""
        if self.flops is not None:
            return self.flops(call)
        return 0 if self.raw else sum(t.size for t in call.outputs)

    def check_arity(self, call: Call) -> None:
        """ModelError unless the number of inputs fits and every mandatory one is there."""
        required = len(self.operands) - self.optional
        got = len(call.inputs)
        if got < max(required, 1) or (got > len(self.operands) and not self.variadic):
            call.fail(f"takes inputs ({', '.join(self.operands)}), got {got}")
        for index, found in enumerate(call.inputs):
            if found is None and not required <= index < len(self.operands):
                call.fail(f"input {index} must not be absent")

    def check_strings(self, call: Call) -> None:
        """ModelError for a string tensor, unless the op says that it takes them."""
        for index, found in enumerate(call.inputs):
            if found is not None and found.dtype is DType.STRING and not self.strings:
                call.fail(f"takes no strings, input {index} is {found}")

    def complete(self, call: Call, attrs: Mapping[str, Any]) -> dict[str, Any]:
        """The attributes with defaults filled in; ModelError for unknown or missing ones."""
        known = {**self.attributes, "activation": None} if self.fusible else dict(self.attributes)
        unknown = attrs.keys() - known.keys()
        if unknown:
            call.fail(f"has no attribute {', '.join(sorted(unknown))}")
        full = {**known, **attrs}
        missing = sorted(k for k, v in full.items() if v is REQUIRED)
        if missing:
            call.fail(f"needs attribute {', '.join(missing)}")
        return full


def op(
    infer: Infer,
    kernel: KernelFunction | None = None,
    *,
    name: str = "",
    fusible: bool = False,
    alias: bool = False,
    host_reason: str = "",
    guards: tuple[Guard, ...] = (),
    quantized: Quantized | None = None,
    raw: bool = False,
    strings: bool = False,
    precise: bool = False,
    flops: Flops | None = None,
) -> Callable[[Callable[..., Any]], Op]:
    """Make an Op of its numpy reference; operands and attributes are read from its signature."""

    def declare(reference: Callable[..., Any]) -> Op:
        params = inspect.signature(reference).parameters.values()
        positional = [p for p in params if p.kind is not inspect.Parameter.KEYWORD_ONLY]
        return Op(
            name=name or reference.__name__,
            reference=reference,
            infer=infer,
            kernel=kernel,
            fusible=fusible,
            alias=alias,
            host_reason=host_reason,
            guards=guards,
            quantized=quantized,
            raw=raw or alias,
            flops=flops,
            strings=strings,
            precise=precise,
            attributes={p.name: p.default for p in params if p.kind is inspect.Parameter.KEYWORD_ONLY},
            operands=tuple(p.name for p in positional),
            optional=sum(p.default is None for p in positional),
            variadic=any(p.kind is inspect.Parameter.VAR_POSITIONAL for p in positional),
        )

    return declare


def matrices(*operands: int) -> Flops:
    """Op.flops: every row of x times each of these matrices that is there."""

    def flops(call: Call) -> int:
        present = (call.input(k).size for k in operands if call.has(k))
        return 2 * math.prod(call.x.shape[:-1]) * sum(present)

    return flops


def like(call: Call) -> TensorType:
    """Infer: the result has the type of the first input."""
    return call.x


def broadcast_shapes(call: Call, *shapes: Shape) -> Shape:
    """The numpy broadcast of shapes; ModelError naming the call when they do not fit."""
    try:
        return tuple(np.broadcast_shapes(*shapes))
    except ValueError:
        call.fail(f"shapes {' and '.join(str(list(s)) for s in shapes)} cannot be broadcast together")


def broadcast(call: Call) -> TensorType:
    """Infer: numpy broadcasting of all inputs, which share one dtype."""
    types = [t for t in call.inputs if t is not None]
    if len({t.dtype for t in types}) > 1:
        call.fail(f"inputs must have one dtype, got {', '.join(t.dtype.value for t in types)}")
    return call.x.with_shape(broadcast_shapes(call, *(t.shape for t in types)))


def as_tuple(result: Array | tuple[Array, ...]) -> tuple[Array, ...]:
    """A reference's result as a tuple of arrays."""
    return result if isinstance(result, tuple) else (result,)
