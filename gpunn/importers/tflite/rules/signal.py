"""Rules of TFLite's operators on signals."""

from __future__ import annotations

from gpunn.importers.common.answers import Step
from gpunn.importers.tflite.node import Node


def rfft2d(node: Node) -> Step:
    """Translate RFFT2D: the second input has height and width of the transform."""
    return Step("rfft2d", (node.operand(0),), {"length": node.ints(1, "lengths", 2)})
