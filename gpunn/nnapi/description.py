"""Description: an NNAPI model as data, as calls have described it; Binding: what an execution adds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpunn.importers.nnapi.codes import OperandLifeTime, OperandType, OperationCode
from gpunn.types import Array


@dataclass(slots=True, eq=False)
class GraphOperand:
    """An operand of an NNAPI model: its type, its lifetime, and its value if it is constant."""

    type: OperandType
    lifetime: OperandLifeTime = OperandLifeTime.TEMPORARY_VARIABLE
    value: Array | None = None


@dataclass(frozen=True, slots=True, eq=False)
class GraphOperation:
    """An operation of an NNAPI model on operands by index."""

    type: OperationCode
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Description:
    """An NNAPI model as calls described it: inputs and outputs are operands by index.

    The operations are in an order in which they can run. `level` is the feature level whose rules hold.
    """

    name: str
    operands: Sequence[GraphOperand]
    operations: Sequence[GraphOperation]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    level: int = 27


@dataclass(frozen=True, slots=True)
class Binding:
    """An execution's knowledge of the model's inputs, in their order: full types, and values.

    The value of an omitted optional input is None.
    """

    types: tuple[OperandType, ...]
    values: tuple[Array | None, ...]
