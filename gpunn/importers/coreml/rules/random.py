"""Rules of layers that draw random numbers.

Their last input is how much has been drawn so far, a variable that the reader adds, and their last result is
how much has been drawn then. So each run goes on where the one before ended. The seed of a layer keys its
generator. Layers of equal seeds draw equal numbers; -1 stands for a start that the reader draws.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from gpunn.graph.operation import Operand
from gpunn.importers.coreml.node import Node, Value
from gpunn.importers.coreml.rules.shapes import shape_of
from gpunn.types import Shape

LEAST = 1e-10  # added to probabilities if the file states nothing
Rule = Callable[[Node], Sequence[Value]]


def _expect_inputs(node: Node, count: int) -> None:
    """Raise FormatError unless the file gives so many inputs."""
    given = len(node.inputs) - 1
    if given != count:
        node.corrupt(f"expected {count} inputs, got {given}")


def _static(node: Node) -> Shape:
    _expect_inputs(node, 0)
    return shape_of(node, node.params.outputShape)


def _like(node: Node) -> Shape:
    _expect_inputs(node, 1)
    return node.operand(0).type.shape


def _dynamic(node: Node) -> Shape:
    _expect_inputs(node, 1)
    return shape_of(node, node.numbers(0, "extents"))


def _drawn(node: Node) -> Operand:
    """Return how much has been drawn."""
    return node.operand(len(node.inputs) - 1)


def _seeds(node: Node) -> tuple[int, int]:
    return int(node.params.seed), 0


def _rule(shape: Callable[[Node], Shape], op: str, finish: Callable[[Node, Value], Value]) -> Rule:
    def rule(node: Node) -> Sequence[Value]:
        numbers = node.add(op, _drawn(node), shape=shape(node), seeds=_seeds(node))
        return finish(node, numbers), numbers.beside(1)

    return rule


def _line(node: Node, x: Value, factor: float, term: float) -> Value:
    return node.add("add", node.add("mul", x, node.scalar(factor)), node.scalar(term))


def _normal(node: Node, x: Value) -> Value:
    return _line(node, x, node.params.stdDev, node.params.mean)


def _uniform(node: Node, x: Value) -> Value:
    return _line(node, x, node.params.maxVal - node.params.minVal, node.params.minVal)


def _bernoulli(node: Node, x: Value) -> Value:
    return node.add("cast", node.add("less", x, node.scalar(node.params.prob)), dtype="float32")


def _categorical(node: Node) -> Sequence[Value]:
    """Return numbers of classes, drawn for each row of probabilities or of their logarithms."""
    params = node.params
    _expect_inputs(node, 1)
    x: Value = node.operand(0)
    *leading, classes = node.shape(x) or (0,)
    samples = int(params.numSamples)
    if not classes or samples < 1:
        node.corrupt(f"draws {samples} samples from an input of shape {list(node.shape(x))}")
    if not params.isLogits:
        x = node.add("log", node.add("add", x, node.scalar(params.eps or LEAST)))
    if params.temperature not in (0, 1):
        x = node.add("mul", x, node.scalar(1 / params.temperature))
    rows = node.add("reshape", x, shape=(math.prod(leading), classes))
    attrs = {"samples": samples, "seeds": _seeds(node), "dtype": "int32"}
    drawn = node.add("multinomial", rows, _drawn(node), **attrs)
    numbers = node.add("cast", drawn, dtype="float32")
    return node.add("reshape", numbers, shape=(*leading, samples)), drawn.beside(1)


_SHAPES = {"Static": _static, "Like": _like, "Dynamic": _dynamic}
_DISTRIBUTIONS: Mapping[str, tuple[str, Callable[[Node, Value], Value]]] = {
    "randomNormal": ("random_normal", _normal),
    "randomUniform": ("random_uniform", _uniform),
    "randomBernoulli": ("random_uniform", _bernoulli),
}
RULES: Mapping[str, Rule] = {
    **{
        name + suffix: _rule(shape, *how)
        for name, how in _DISTRIBUTIONS.items()
        for suffix, shape in _SHAPES.items()
    },
    "categoricalDistribution": _categorical,
}
