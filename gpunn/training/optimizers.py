"""Optimisers: how weights change with the gradients, written in ops.

Formulas: PyTorch, torch.optim.SGD and torch.optim.Adam, without weight decay, dampening and AMSGrad. Core
ML's document has the parameters of SGDOptimizer and AdamOptimizer (NeuralNetwork.proto), but no formulas.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from gpunn.arguments import expect_number
from gpunn.ops.gradient import Symbol

_MOST = 2.0**128  # where float32 ends

Changed = tuple[Symbol, tuple[Symbol, ...]]  # the next value of a weight, and those of its moments


@dataclass(frozen=True, slots=True)
class SGD:
    """Descend along the gradient g: v = momentum * v + g, then w = w - learning_rate * v; v begins with 0.

    learning_rate: 0 or more. momentum: from 0 to 1, without 1. Raises ModelError for others. Source: PyTorch,
    torch.optim.SGD.
    """

    learning_rate: float
    momentum: float = 0.0
    scalars: ClassVar[int] = 1

    def __post_init__(self) -> None:
        check_rate(self.learning_rate)
        expect_number("momentum", self.momentum, 1)

    @property
    def moments(self) -> int:
        """Return how many tensors are kept for each weight."""
        return 1 if self.momentum else 0

    def values(self, step: int, learning_rate: float) -> tuple[float, ...]:
        """Return the numbers of a step, counted from 1, that changed() reads."""
        return (learning_rate,)

    def changed(
        self, weight: Symbol, gradient: Symbol, moments: Sequence[Symbol], scalars: Sequence[Symbol]
    ) -> Changed:
        """Add the ops of a step; return the next values of a weight and of its moments."""
        (rate,) = scalars
        if not moments:
            return weight - gradient * rate, ()
        velocity = moments[0] * self.momentum + gradient
        return weight - velocity * rate, (velocity,)


@dataclass(frozen=True, slots=True)
class Adam:
    """Descend by the mean of the gradients g over the root of the mean of their squares.

    In step t = 1, 2, ...: m = beta1 * m + (1 - beta1) * g, and v = beta2 * v + (1 - beta2) * g^2; then
    w = w - learning_rate * M / (sqrt(V) + eps) with M = m / (1 - beta1^t) and V = v / (1 - beta2^t). m and v
    begin with 0.

    learning_rate, eps: 0 or more. beta1, beta2: from 0 to 1, without 1. Raises ModelError for others. Source:
    Kingma and Ba, "Adam: A Method for Stochastic Optimization", algorithm 1; PyTorch, torch.optim.Adam.
    """

    learning_rate: float
    beta1: float = 0.9
    beta2: float = 0.999
    eps: float = 1e-8
    moments: ClassVar[int] = 2
    scalars: ClassVar[int] = 2

    def __post_init__(self) -> None:
        check_rate(self.learning_rate)
        expect_number("beta1", self.beta1, 1)
        expect_number("beta2", self.beta2, 1)
        expect_number("eps", self.eps)

    def values(self, step: int, learning_rate: float) -> tuple[float, ...]:
        """Return the numbers of a step, counted from 1, that changed() reads."""
        return learning_rate / (1 - self.beta1**step), 1 / math.sqrt(1 - self.beta2**step)

    def changed(
        self, weight: Symbol, gradient: Symbol, moments: Sequence[Symbol], scalars: Sequence[Symbol]
    ) -> Changed:
        """Add the ops of a step; return the next values of a weight and of its moments."""
        (mean, square), (rate, widening) = moments, scalars
        mean = mean * self.beta1 + gradient * (1 - self.beta1)
        square = square * self.beta2 + gradient.of("square") * (1 - self.beta2)
        change = mean * rate / (square.of("sqrt") * widening + self.eps)
        return weight - change, (mean, square)


Optimizer = SGD | Adam


def check_rate(rate: float) -> None:
    """Raise ModelError unless a number can be a learning rate, which is float32."""
    expect_number("a learning rate", rate, _MOST)
