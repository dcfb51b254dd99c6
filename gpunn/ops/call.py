"""Call: an operation as its op sees it, and the shape rules that many ops share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from gpunn.device import BASELINE, DeviceProperties
from gpunn.errors import ModelError, UnsupportedError
from gpunn.types import Array, Shape, TensorType

Values = Callable[[int], Array | None]  # the value of an input by number, where it is known


class ValueNeededError(Exception):
    """An infer's answer that the types of the results follow from the values of the inputs `indices`.

    `results` are these types as far as they are known without them, with 1 for extents that are not.
    """

    def __init__(self, indices: Sequence[int], results: Sequence[TensorType] = ()) -> None:
        super().__init__(f"the types of the results follow from the values of inputs {list(indices)}")
        self.indices = tuple(indices)
        self.results = tuple(results)


class BeyondError(UnsupportedError):
    """An infer's refusal of a call that is right, but larger than gpunn supports; `reason` says by what."""

    def __init__(self, where: str, reason: str) -> None:
        super().__init__(f"{where}: {reason}")
        self.reason = reason


class ResultsNeededError(Exception):
    """An infer's answer that the shapes of the results are known only when the operation has run.

    `results` are their types, with any shapes.
    """

    def __init__(self, results: Sequence[TensorType]) -> None:
        super().__init__("the shapes of the results are known when the operation has run")
        self.results = tuple(results)


@dataclass(frozen=True, slots=True)
class Call:
    """An operation as its op sees it: types and attributes; values only for infer, by value().

    `constant[i]` says whether input i is known at compile time. `outputs` is empty while inferring.
    `device` is the one that kernels are for. `relaxed`: see Operation.
    """

    op: str
    origin: str
    inputs: tuple[TensorType | None, ...]
    attrs: Mapping[str, Any]
    outputs: tuple[TensorType, ...] = ()
    constant: tuple[bool, ...] = ()
    device: DeviceProperties = BASELINE
    relaxed: bool = False

    value_of: Values | None = None

    def __getitem__(self, attr: str) -> Any:
        return self.attrs[attr]

    def input(self, index: int) -> TensorType:
        """Return the type of a mandatory input."""
        found = self.inputs[index]
        assert found is not None
        return found

    @property
    def x(self) -> TensorType:
        """Return the type of the first input."""
        return self.input(0)

    @property
    def y(self) -> TensorType:
        """Return the type of the first output."""
        return self.outputs[0]

    def known(self, index: int) -> Array | None:
        """Return the value of input `index` if an op's infer can know it now, else None."""
        return None if self.value_of is None else self.value_of(index)

    def value(self, index: int, *results: TensorType) -> Array:
        """Return the value of input `index`, from which an op's infer finds the types of the results.

        `results` are these types as far as they are known without the value, with 1 for extents that are not.
        Raises ValueNeededError for a value that is not known yet: the graph then keeps the operation as
        pending, and asks again when a run has computed the value.
        """
        return self.values([index], *results)[0]

    def values(self, indices: Sequence[int], *results: TensorType) -> list[Array]:
        """Return the values of several inputs, as value() does; those not known are asked for at once."""
        found = {index: self.known(index) for index in indices}
        unknown = [index for index, value in found.items() if value is None]
        if unknown:
            raise ValueNeededError(unknown, results)
        return [value for value in found.values() if value is not None]

    def has(self, index: int) -> bool:
        """Tell whether optional input `index` is there."""
        return index < len(self.inputs) and self.inputs[index] is not None

    def fail(self, what: str) -> NoReturn:
        """Raise ModelError naming this operation and where it comes from."""
        raise ModelError(f"{self.where}: {what}")

    def refuse(self, reason: str) -> NoReturn:
        """Raise UnsupportedError naming this operation and where it comes from."""
        raise BeyondError(self.where, reason)

    @property
    def where(self) -> str:
        """Return the name of this operation and where it comes from, for messages."""
        return f"{self.op} ({self.origin})" if self.origin else self.op

    def expect_rank(self, index: int, *ranks: int) -> TensorType:
        """Return the type of input `index`, whose rank must be one of `ranks`."""
        found = self.input(index)
        if found.rank not in ranks:
            self.fail(
                f"input {index} must have rank {' or '.join(map(str, ranks))}, got shape {list(found.shape)}"
            )
        return found

    def axis(self, axis: int, rank: int) -> int:
        """Return a possibly negative axis as a non-negative one; raise ModelError if it is out of range."""
        if not -rank <= axis < rank:
            self.fail(f"axis {axis} is out of range for rank {rank}")
        return axis % rank


Infer = Callable[[Call], TensorType | tuple[TensorType, ...]]


def like(call: Call) -> TensorType:
    """Infer: the result has the type of the first input."""
    return call.x


def broadcast_shapes(call: Call, *shapes: Shape) -> Shape:
    """Return the numpy broadcast of shapes; raise ModelError with the name of the call if they do not fit."""
    try:
        return tuple(np.broadcast_shapes(*shapes))
    except ValueError:
        call.fail(f"shapes {' and '.join(str(list(s)) for s in shapes)} cannot be broadcast together")


def broadcast(call: Call) -> TensorType:
    """Infer: numpy broadcasting of all inputs, which share one dtype."""
    types = [t for t in call.inputs if t is not None]
    if any([t.dtype is not call.x.dtype for t in types]):
        call.fail(f"inputs must have one dtype, got {', '.join(t.dtype.value for t in types)}")
    shapes = [t.shape for t in types if t.rank] or [()]
    if shapes.count(shapes[0]) == len(shapes):  # the usual case, sooner than numpy finds it
        return call.x if call.x.shape == shapes[0] else call.x.with_shape(shapes[0])
    return call.x.with_shape(broadcast_shapes(call, *shapes))
