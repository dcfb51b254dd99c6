"""Expansion: where an op that is written in other ops adds them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from gpunn.types import Array, Quantization, TensorType


class Tensor(Protocol):
    """A tensor as an expansion sees it: an operand of the op, or a result of an op that it added."""

    @property
    def type(self) -> TensorType:
        """Return its type."""

    @property
    def value(self) -> Array | None:
        """Return its value if it is a constant."""


class Expansion(Protocol):
    """Adds ops in the place of one that is written in them; they keep its origin."""

    def constant(self, value: Array, quantization: Quantization | None = None) -> Tensor:
        """Return a constant."""

    def results(self, op: str, *inputs: Tensor | None, **attrs: Any) -> tuple[Tensor, ...]:
        """Add an op and return its results. Raises ModelError as Graph.add() does."""

    def add(
        self, op: str, *inputs: Tensor | None, quantization: Quantization | None = None, **attrs: Any
    ) -> Tensor:
        """Add an op and return its first result. Raises ModelError as Graph.add() does.

        quantization: what its only result shall have instead of what the op's rule gives it.
        """


# From the Call, the Expansion and the operands to the results, each of which an added op computes.
Expand = Callable[..., Any]
