"""What an NNAPI rule works on: an operation with its operands by name (Node)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from gpunn.errors import NnapiError, ResultCode
from gpunn.graph.operation import Operand
from gpunn.importers.nnapi.codes import FuseCode, OperandType, PaddingCode
from gpunn.types import Array

ACTIVATIONS = {FuseCode.NONE: None, FuseCode.RELU: "relu", FuseCode.RELU1: "relu1", FuseCode.RELU6: "relu6"}
PADDINGS = {PaddingCode.SAME: "same", PaddingCode.VALID: "valid"}


class DeferredError(Exception):
    """A rule's answer that it needs a dimension or value that is known at execution only."""


@dataclass(frozen=True, slots=True)
class Argument:
    """An operand of an operation: its type, and its tensor or value, which may not be known yet.

    The three functions raise DeferredError where the answer comes with an execution; `value` raises
    RefusedError where it would come out of another operation.
    """

    type: OperandType
    absent: Callable[[], bool]
    tensor: Callable[[], Operand]
    value: Callable[[], Array]


@dataclass(frozen=True, slots=True)
class Node:
    """One operation whose signature has been checked. A rule reads attributes first, then tensors:

    so attributes are checked even where dimensions are not known yet.
    """

    origin: str
    arguments: Mapping[str, Argument]
    outputs: Sequence[OperandType]
    listed: Sequence[Argument] = ()

    def bad(self, what: str) -> NoReturn:
        """Raise BAD_DATA naming this operation."""
        raise NnapiError(ResultCode.BAD_DATA, f"{self.origin}: {what}")

    def has(self, name: str) -> bool:
        """Whether this form has the parameter and it has a value."""
        return name in self.arguments and not self.arguments[name].absent()

    def type(self, name: str) -> OperandType:
        """The declared type of a parameter."""
        return self.arguments[name].type

    def tensor(self, name: str) -> Operand:
        """The tensor of a parameter, all dimensions known."""
        return self.arguments[name].tensor()

    def optional(self, name: str) -> Operand | None:
        """The tensor of an optional parameter."""
        return self.tensor(name) if self.has(name) else None

    def tensors(self) -> tuple[Operand, ...]:
        """The tensors of the variadic parameter, in order."""
        return tuple(argument.tensor() for argument in self.listed)

    def integer(self, name: str, low: int | None = None, high: int | None = None) -> int:
        """An INT32 scalar, within bounds (ends included)."""
        value = int(self.arguments[name].value().item())
        if (low is not None and value < low) or (high is not None and value > high):
            limits = f"at least {low}" if high is None else f"at most {high}"
            self.bad(
                f"{name} must be {f'{low} to {high}' if None not in (low, high) else limits}, got {value}"
            )
        return value

    def real(self, name: str) -> float:
        """A FLOAT32 scalar."""
        return float(self.arguments[name].value().item())

    def integers(self, name: str, count: int | None = None) -> tuple[int, ...]:
        """The values of a vector, `count` of them where that is given."""
        values = self.arguments[name].value()
        if count is not None and values.size != count:
            self.bad(f"{name} must have {count} entries, got {values.size}")
        return tuple(int(v) for v in values.reshape(-1))

    def pairs(self, name: str, count: int) -> tuple[tuple[int, int], ...]:
        """The values of a tensor [count, 2], none negative."""
        values = self.arguments[name].value()
        if values.shape != (count, 2):
            self.bad(f"{name} must have shape [{count}, 2], got {list(values.shape)}")
        if values.size and values.min() < 0:
            self.bad(f"{name} must not be negative, got {values.tolist()}")
        return tuple((int(a), int(b)) for a, b in values)

    def code(self, name: str, known: Mapping[Any, str | None]) -> str | None:
        """What an enumerated scalar stands for."""
        number = self.integer(name)
        if number not in known:
            self.bad(f"{name} must be one of {', '.join(str(int(k)) for k in known)}, got {number}")
        return known[number]

    def activation(self) -> dict[str, str]:
        """The fused activation as an attribute, none if there is none."""
        name = self.code("fuse", ACTIVATIONS)
        return {} if name is None else {"activation": name}
