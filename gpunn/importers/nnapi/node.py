"""What an NNAPI rule works on: an operation with its operands by name (Node)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from gpunn.errors import NnapiError, ResultCode
from gpunn.graph.operation import Operand
from gpunn.importers.common.node import ComputedError, RefusedError
from gpunn.importers.nnapi.codes import FuseCode, OperandType, PaddingCode
from gpunn.types import Array

ACTIVATIONS = {FuseCode.NONE: None, FuseCode.RELU: "relu", FuseCode.RELU1: "relu1", FuseCode.RELU6: "relu6"}
PADDINGS = {PaddingCode.SAME: "same", PaddingCode.VALID: "valid"}


@dataclass(frozen=True, slots=True)
class Argument:
    """An operand of an operation, as far as it is known.

    `operand` is None where it is left out, `value` where it is not known. `waits`: an execution brings the
    dimensions, or tells whether it is there at all. `computed`: it is the result of another operation.
    """

    type: OperandType
    operand: Operand | None
    value: Array | None = None
    waits: bool = False
    computed: bool = False

    def tensor(self) -> Operand:
        """Return the tensor. Raises ComputedError where an execution brings its dimensions."""
        assert self.operand is not None
        if self.waits:
            raise ComputedError(f"the dimensions of {self.operand.name} come with an execution", self.operand)
        return self.operand


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
        argument = self.arguments.get(name)
        if argument is None or argument.operand is None:
            return False
        if argument.waits and not argument.computed:
            argument.tensor()
        return True

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

    def value(self, name: str) -> Array:
        """Return the value of a parameter.

        Raises ComputedError where an execution brings it, RefusedError where another operation computes it.
        """
        argument = self.arguments[name]
        if argument.value is not None:
            return argument.value
        assert argument.operand is not None
        what = f"{name} ({argument.operand.name})"
        if argument.computed:
            raise RefusedError(f"{what} is computed by another operation, it must be known before")
        raise ComputedError(f"{what} comes with an execution", argument.operand)

    def integer(self, name: str, low: int | None = None, high: int | None = None) -> int:
        """An INT32 scalar, within bounds (ends included)."""
        value = int(self.value(name).item())
        if (low is not None and value < low) or (high is not None and value > high):
            limits = f"at least {low}" if high is None else f"at most {high}"
            self.bad(
                f"{name} must be {f'{low} to {high}' if None not in (low, high) else limits}, got {value}"
            )
        return value

    def real(self, name: str) -> float:
        """A FLOAT32 scalar."""
        return float(self.value(name).item())

    def integers(self, name: str, count: int | None = None) -> tuple[int, ...]:
        """The values of a vector, `count` of them where that is given."""
        values = self.value(name)
        if count is not None and values.size != count:
            self.bad(f"{name} must have {count} entries, got {values.size}")
        return tuple(int(v) for v in values.reshape(-1))

    def pairs(self, name: str, count: int) -> tuple[tuple[int, int], ...]:
        """The values of a tensor [count, 2], none negative."""
        values = self.value(name)
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
