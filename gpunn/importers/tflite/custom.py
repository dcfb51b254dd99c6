"""Rules of TFLite's custom operators: the user's own, and those that gpunn brings."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping

from gpunn.custom import CustomOperator, flexbuffer_map
from gpunn.errors import FormatError
from gpunn.importers.common.answers import Step
from gpunn.importers.tflite.node import Node
from gpunn.ops.vision.detection import detection_postprocess

PREFIX = "CUSTOM "  # before a custom operator's name in FileOperator.code
_PRIVATE = "_"  # options of converters' own start so: _output_quantized


def detections(options: bytes) -> Mapping[str, object]:
    """Return the attributes of TFLite_Detection_PostProcess; what is null has its default.

    Some converters write a flag as an integer, of which 0 is False.
    """
    found = flexbuffer_map(options)
    regular = found.get("use_regular_nms")
    if isinstance(regular, int):
        found["use_regular_nms"] = bool(regular)
    return {k: v for k, v in found.items() if v is not None and not k.startswith(_PRIVATE)}


CUSTOM_OPERATORS: Mapping[str, CustomOperator] = {
    "TFLite_Detection_PostProcess": CustomOperator(detection_postprocess, detections),
}


def custom_rule(operator: CustomOperator) -> Callable[[Node], Step]:
    """Return the rule that a custom operator stands for."""

    def rule(node: Node) -> Step:
        try:
            attributes = operator.attributes(node.custom_options)
        except (FormatError, ValueError, LookupError, struct.error) as error:
            node.corrupt(f"the custom options cannot be read: {error}")
        return Step(operator.op, node.inputs, attributes)

    return rule
