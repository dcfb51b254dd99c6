"""Node: an NNAPI operation with its operands by name, the input of a rule."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import KW_ONLY, dataclass
from typing import Any, NoReturn

from gpunn.errors import NnapiError, ResultCode
from gpunn.graph.operation import Operand
from gpunn.importers.common import node as common
from gpunn.importers.common.node import ComputedError, RefusedError
from gpunn.importers.nnapi.codes import FuseCode, OperandType, PaddingCode
from gpunn.types import Array

ACTIVATIONS = {FuseCode.NONE: None, FuseCode.RELU: "relu", FuseCode.RELU1: "relu1", FuseCode.RELU6: "relu6"}
PADDINGS = {PaddingCode.SAME: "same", PaddingCode.VALID: "valid"}


@dataclass(frozen=True, slots=True)
class Node(common.Node):
    """One operation whose signature has been checked.

    `parameters` are the positions of named inputs, `variadic` how many inputs without a name come first;
    `types` the types of all inputs, and `results` those of the outputs, as declared. `computed` are inputs
    that other operations compute, `waiting` those of which an execution brings the dimensions, or tells
    whether they are there at all. `level` is the model's feature level. A rule reads attributes first, then
    tensors: so attributes are checked even where dimensions are not known yet.
    """

    _: KW_ONLY
    parameters: Mapping[str, int]
    types: Sequence[OperandType]
    results: Sequence[OperandType]
    variadic: int = 0
    computed: Set[Operand] = frozenset()
    waiting: Set[Operand] = frozenset()
    level: int = 27

    def corrupt(self, what: str) -> NoReturn:
        """Raise BAD_DATA naming this operation."""
        raise NnapiError(ResultCode.BAD_DATA, f"{self.origin}: {what}")

    def has(self, name: str) -> bool:
        """Tell whether this form has the parameter and it has a value.

        Raises ComputedError if only an execution tells.
        """
        operand = self.inputs[self.parameters[name]] if name in self.parameters else None
        if operand is not None and operand not in self.computed:
            self._expect_dimensions(operand)
        return operand is not None

    def type(self, name: str) -> OperandType:
        """Return the declared type of a parameter."""
        return self.types[self.parameters[name]]

    def rank(self, name: str) -> int:
        """Return the number of dimensions of a tensor. Raises ComputedError if only an execution tells."""
        found = self.type(name)
        return len(found.dimensions) if found.ranked else self.tensor(name).type.rank

    def tensor(self, name: str) -> Operand:
        """Return the tensor of a parameter, with all dimensions known."""
        return self._tensor(self.parameters[name])

    def optional(self, name: str) -> Operand | None:
        """Return the tensor of an optional parameter."""
        return self.tensor(name) if self.has(name) else None

    def tensors(self) -> tuple[Operand, ...]:
        """Return the tensors of the variadic parameter, in order."""
        return tuple(map(self._tensor, range(self.variadic)))

    def _tensor(self, index: int) -> Operand:
        operand = self.operand(index)
        self._expect_dimensions(operand)
        return operand

    def _expect_dimensions(self, operand: Operand) -> None:
        if operand in self.waiting:
            raise ComputedError(f"the dimensions of {operand.name} come with an execution", operand)

    def value(self, name: str) -> Array:
        """Return the value of a parameter.

        Raises ComputedError where an execution brings it, RefusedError where another operation computes it.
        """
        operand = self.operand(self.parameters[name])
        what = f"{name} ({operand.name})"
        if operand in self.computed:
            raise RefusedError(f"{what} is computed by another operation, it must be known before")
        value = self.value_of(operand)
        if value is None:
            raise ComputedError(f"{what} comes with an execution", operand)
        return value

    def integer(self, name: str, low: int | None = None, high: int | None = None) -> int:
        """Return an INT32 scalar, within bounds (ends included)."""
        value = int(self.value(name).item())
        if (low is not None and value < low) or (high is not None and value > high):
            limits = f"at least {low}" if high is None else f"at most {high}"
            self.corrupt(
                f"{name} must be {f'{low} to {high}' if None not in (low, high) else limits}, got {value}"
            )
        return value

    def real(self, name: str) -> float:
        """Return a FLOAT32 or FLOAT16 scalar."""
        return float(self.value(name).item())

    def flag(self, name: str) -> bool:
        """Return a BOOL scalar; False if this form does not have it."""
        return name in self.parameters and bool(self.value(name).item())

    def axis(self) -> int:
        """Return the INT32 scalar axis, an index into the dimensions of x, from the end if negative.

        Without it, the last one.
        """
        if "axis" not in self.parameters:
            return -1
        rank = self.rank("x")
        return self.integer("axis", -rank, rank - 1)

    def integers(self, name: str, count: int | None = None) -> tuple[int, ...]:
        """Return the values of a vector; `count` of them if it is given."""
        values = self.value(name)
        if count is not None and values.size != count:
            self.corrupt(f"{name} must have {count} entries, got {values.size}")
        return tuple(int(v) for v in values.reshape(-1))

    def pairs(self, name: str, count: int) -> tuple[tuple[int, int], ...]:
        """Return the values of a tensor [count, 2], none of them negative."""
        values = self.value(name)
        if values.shape != (count, 2):
            self.corrupt(f"{name} must have shape [{count}, 2], got {list(values.shape)}")
        if values.size and values.min() < 0:
            self.corrupt(f"{name} must not be negative, got {values.tolist()}")
        return tuple((int(a), int(b)) for a, b in values)

    def code(self, name: str, known: Mapping[Any, str | None]) -> str | None:
        """Return the meaning of an enumerated scalar."""
        number = self.integer(name)
        if number not in known:
            self.corrupt(f"{name} must be one of {', '.join(str(int(k)) for k in known)}, got {number}")
        return known[number]

    def activation(self) -> dict[str, str]:
        """Return the fused activation as an attribute; nothing if there is none."""
        name = self.code("fuse", ACTIVATIONS)
        return {} if name is None else {"activation": name}
