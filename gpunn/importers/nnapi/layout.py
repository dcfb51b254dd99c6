"""The layout NCHW of feature level 29: an operation on NHWC images, between two transposes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from gpunn.graph.operation import Lifetime, Operand
from gpunn.importers.common.answers import PREVIOUS, Step
from gpunn.importers.nnapi.node import Node

T = TypeVar("T")
_TO_LAST, _TO_FIRST = (0, 2, 3, 1), (0, 3, 1, 2)  # permutations of NCHW to NHWC, and back


def channels_first(node: Node, steps: Callable[[Node], Step | Sequence[Step]]) -> Step | Sequence[Step]:
    """Return what `steps` answers with one step for images x and y as NHWC, for images that are NCHW."""
    at = node.parameters["x"]
    x = node.inputs[at]
    if x is None or x in node.waiting:
        return steps(node)  # which checks the attributes, and refuses or waits
    types = list(node.types)
    types[at] = replace(types[at], dimensions=_moved(types[at].dimensions))
    images = Operand(x.name, x.type.with_shape(_moved(x.type.shape)), Lifetime.TEMPORARY)
    inputs = [*node.inputs[:at], images, *node.inputs[at + 1 :]]
    step = steps(replace(node, inputs=tuple(inputs), types=types))
    assert isinstance(step, Step), "an operation on images is one step"
    values = tuple(PREVIOUS if value is images else value for value in step.inputs)
    quantization = [type.quantization for type in node.results] if node.types[at].type.form.quantised else ()
    return (
        Step("transpose", (x,), {"perm": _TO_LAST}),
        replace(step, inputs=values, quantization=quantization),
        Step("transpose", (PREVIOUS,), {"perm": _TO_FIRST}),
    )


def _moved(values: Sequence[T]) -> tuple[T, ...]:
    """Return the entries for N, C, H and W in the order N, H, W, C."""
    return tuple(values[k] for k in _TO_LAST)
