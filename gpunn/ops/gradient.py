"""Gradient: how the derivative of a loss goes back through an op, written in ops."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpunn.ops.call import Call
from gpunn.ops.expansion import Expand, Expansion, Tensor
from gpunn.types import Shape, TensorType

Number = int | float


@dataclass(frozen=True, slots=True)
class Symbol:
    """A tensor in a formula: each operator adds an op, and so does of(). Numbers become constants."""

    to: Expansion
    tensor: Tensor

    @property
    def type(self) -> TensorType:
        """Return the tensor's type."""
        return self.tensor.type

    @property
    def shape(self) -> Shape:
        """Return the tensor's shape."""
        return self.tensor.type.shape

    def of(self, op: str, *others: Symbol | Number | None, **attrs: Any) -> Symbol:
        """Add an op with this tensor as its first operand, and return its first result."""
        inputs = [None if o is None else self.symbol(o).tensor for o in others]
        return Symbol(self.to, self.to.add(op, self.tensor, *inputs, **attrs))

    def symbol(self, value: Symbol | Number) -> Symbol:
        """Return a number as a constant of this tensor's dtype; a symbol as it is."""
        if isinstance(value, Symbol):
            return value
        return Symbol(self.to, self.to.constant(np.array(value, self.type.dtype.numpy)))

    def constant(self, value: Any) -> Symbol:
        """Return an array as a constant of this tensor's dtype."""
        return Symbol(self.to, self.to.constant(np.asarray(value, self.type.dtype.numpy)))

    def reshaped(self, shape: Sequence[int]) -> Symbol:
        """Return the same elements under another shape."""
        return self if tuple(shape) == self.shape else self.of("reshape", shape=tuple(shape))

    def expanded(self, shape: Sequence[int]) -> Symbol:
        """Return the elements repeated to a shape, as numpy broadcasts."""
        return self if tuple(shape) == self.shape else self.of("broadcast_to", shape=tuple(shape))

    def summed(self, axes: Sequence[int], keep_dims: bool = False) -> Symbol:
        """Return the sum over axes."""
        return self.of("reduce_sum", axes=tuple(axes), keep_dims=keep_dims) if axes else self

    def summed_to(self, shape: Shape) -> Symbol:
        """Return the sum over the axes along which a tensor of that shape was broadcast to this one's."""
        if shape == self.shape:
            return self
        rank = len(self.shape)
        padded = (1,) * (rank - len(shape)) + shape
        axes = [d for d, (n, m) in enumerate(zip(self.shape, padded, strict=True)) if m == 1 and n != 1]
        return self.summed(axes).reshaped(shape)

    def __add__(self, other: Symbol | Number) -> Symbol:
        return self.of("add", other)

    def __sub__(self, other: Symbol | Number) -> Symbol:
        return self.of("sub", other)

    def __mul__(self, other: Symbol | Number) -> Symbol:
        return self.of("mul", other)

    def __truediv__(self, other: Symbol | Number) -> Symbol:
        return self.of("div", other)

    def __neg__(self) -> Symbol:
        return self.of("neg")

    def __radd__(self, other: Number) -> Symbol:
        return self.symbol(other).of("add", self)

    def __rsub__(self, other: Number) -> Symbol:
        return self.symbol(other).of("sub", self)

    def __rmul__(self, other: Number) -> Symbol:
        return self.symbol(other).of("mul", self)

    def __rtruediv__(self, other: Number) -> Symbol:
        return self.symbol(other).of("div", self)


@dataclass(frozen=True, slots=True)
class Backward:
    """An operation on the way back from the loss, as the gradient of its op sees it.

    `inputs` and `results` are its tensors. `gradients` are those of the loss with respect to its results, of
    their shapes; None where the loss does not depend on a result. `wanted[i]` says whether that of input i
    is asked for: it stands on the way to a parameter, and has a float dtype. The operation has no fused
    activation: that is an operation of its own.
    """

    call: Call
    inputs: tuple[Symbol | None, ...]
    results: tuple[Symbol, ...]
    gradients: tuple[Symbol | None, ...]
    wanted: tuple[bool, ...]

    def __getitem__(self, attr: str) -> Any:
        return self.call[attr]

    def input(self, index: int) -> Symbol:
        """Return a mandatory input."""
        found = self.inputs[index]
        assert found is not None
        return found

    @property
    def x(self) -> Symbol:
        """Return the first input."""
        return self.input(0)

    @property
    def y(self) -> Symbol:
        """Return the first result."""
        return self.results[0]

    @property
    def g(self) -> Symbol:
        """Return the gradient with respect to the first result."""
        found = self.gradients[0]
        assert found is not None
        return found


# From the Backward to the gradients with respect to the operands, in order; None where none is wanted, or it
# is 0 everywhere. One may have the shape that its operand was broadcast to: it is summed then.
Gradient = Callable[[Backward], Sequence[Symbol | None]]
# The gradient with respect to one operand; None where it is 0 everywhere.
Partial = Callable[[Backward], Symbol | None]


def by_operand(*partials: Partial) -> Gradient:
    """Make a gradient of one function for each operand, which is called if it is wanted."""

    def gradient(back: Backward) -> list[Symbol | None]:
        pairs = zip(partials, back.wanted, strict=False)
        return [partial(back) if wanted else None for partial, wanted in pairs]

    return gradient


def every_operand(partial: Callable[[Backward, int], Symbol | None]) -> Gradient:
    """Make a gradient of one function of an operand's number, for ops with any number of operands."""

    def gradient(back: Backward) -> list[Symbol | None]:
        return [partial(back, k) if wanted else None for k, wanted in enumerate(back.wanted)]

    return gradient


def formula(write: Callable[..., Symbol | tuple[Symbol, ...]]) -> Expand:
    """Make the facet `formula` of a function of the call and of symbols, one for each operand."""

    def expand(call: Call, to: Expansion, *operands: Tensor | None) -> tuple[Tensor, ...]:
        found = write(call, *(None if o is None else Symbol(to, o) for o in operands))
        return tuple(s.tensor for s in (found if isinstance(found, tuple) else (found,)))

    return expand


def zero(back: Backward) -> None:
    """Return the gradient of a function that is constant between jumps: 0, also at the jumps."""


def passed(back: Backward) -> Symbol:
    """Return the gradient of the result as it is."""
    return back.g


def same_elements(back: Backward) -> Symbol:
    """Return the gradient of an op that gives the elements of its operand another shape."""
    return back.g.reshaped(back.x.shape)


def operand_gradients(gradient: Gradient, back: Backward) -> list[Symbol | None]:
    """Return the gradients with respect to the operands, each of its operand's shape.

    None where none is wanted, or it is 0 everywhere.
    """
    found = [*gradient(back)]
    found += [None] * (len(back.inputs) - len(found))
    return [
        None if g is None or x is None or not wanted else g.summed_to(x.shape)
        for g, x, wanted in zip(found, back.inputs, back.wanted, strict=True)
    ]
