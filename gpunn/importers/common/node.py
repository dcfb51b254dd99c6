"""Node: an operator of a file in the form for its rule, without what only one format has."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NoReturn

from gpunn.errors import FormatError
from gpunn.graph.operation import Operand
from gpunn.types import Array, TensorType

MAX_INTS = 64  # axes, extents or indices in one list: well over any rank


class RefusedError(Exception):
    """A rule's answer that its operator is well-formed but cannot be expressed; the text is the reason."""


class ComputedError(RefusedError):
    """A rule's answer that it needs the value of an operand, which is computed at run time."""

    def __init__(self, reason: str, operand: Operand) -> None:
        super().__init__(reason)
        self.operand = operand


def _constant(operand: Operand) -> Array | None:
    return operand.value


@dataclass(frozen=True, slots=True)
class Node:
    """One operator of a file. Absent inputs are None.

    `origin` says where it stands, for messages. `outputs` are the types that the file states, None for those
    that gpunn has no name for. `value_of` gives the values of inputs, as far as they are known.
    """

    origin: str
    inputs: tuple[Operand | None, ...]
    outputs: tuple[TensorType | None, ...] = ()
    value_of: Callable[[Operand], Array | None] = field(default=_constant, kw_only=True)

    def corrupt(self, what: str) -> NoReturn:
        """Raise FormatError naming this operator."""
        raise FormatError(f"{self.origin}: {what}")

    def operand(self, index: int) -> Operand:
        """Return input `index`. Raises FormatError if it is absent."""
        found = self.inputs[index] if index < len(self.inputs) else None
        if found is None:
            self.corrupt(f"input {index} is missing, got {len(self.inputs)} inputs")
        return found

    @property
    def known(self) -> bool:
        """Tell whether all inputs are constants."""
        return all(o is None or o.value is not None for o in self.inputs)

    def constant(self, index: int, what: str, *dtypes: str) -> Array:
        """Return the value of input `index`, which is `what` and has one of these dtypes.

        Raises FormatError for another dtype, ComputedError if the value is not known now.
        """
        operand = self.expect_dtype(index, what, *dtypes)
        value = self.value_of(operand)
        if value is None:
            raise ComputedError(f"the {what} are computed at run time", operand)
        return value

    def expect_dtype(self, index: int, what: str, *dtypes: str) -> Operand:
        """Return input `index`, which is `what`. Raises FormatError unless it has one of these dtypes."""
        operand = self.operand(index)
        if operand.type.dtype.value not in dtypes:
            self.corrupt(f"the {what} should be {' or '.join(dtypes)}, got {operand.type.dtype.value}")
        return operand

    def ints(self, index: int, what: str, count: int | None = None) -> tuple[int, ...]:
        """Return the integers of constant input `index`, exactly `count` if given; a scalar counts as one.

        Raises FormatError for another number of integers or another dtype, ComputedError as constant() does.
        """
        self.expect_ints(index, what, count)
        return tuple(int(v) for v in self.constant(index, what, "int32", "int64").reshape(-1))

    def expect_ints(self, index: int, what: str, count: int | None = None) -> int:
        """Return how many elements input `index` has, exactly `count` if given; they need not be known.

        Raises FormatError for another number of elements.
        """
        type = self.operand(index).type
        expected = MAX_INTS if count is None else count
        if type.rank > 1 or type.size > expected or (count is not None and type.size != count):
            self.corrupt(f"expected {'at most ' if count is None else ''}{expected} {what}, got {type.size}")
        return type.size
