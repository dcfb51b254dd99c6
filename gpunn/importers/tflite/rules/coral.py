"""The rule of the custom operator in Coral's models of people, and its table.

Its meaning is that of libcoral, coral/posenet/posenet_decoder_op.cc.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from gpunn.importers.common.answers import Answer, Step
from gpunn.importers.tflite.node import Node
from gpunn.importers.tflite.rules.options import options_of


def posenet_decoder(node: Node) -> Step:
    """Translate PosenetDecoderOp of heatmaps, short and mid offsets, and for masks long offsets."""
    if (len(node.inputs), len(node.outputs)) not in ((3, 4), (4, 5)):
        node.corrupt(
            f"takes 3 inputs and gives 4, or 4 and 5, got {len(node.inputs)} and {len(node.outputs)}"
        )
    options = options_of(node)
    attrs = {
        **{name: int(options.number(name)) for name in ("max_detections", "stride")},
        **{name: float(options.number(name)) for name in ("score_threshold", "nms_radius")},
    }
    return Step("posenet_decoder", tuple(map(node.operand, range(len(node.inputs)))), attrs)


OPERATORS: Mapping[str, Callable[[Node], Answer]] = {"PosenetDecoderOp": posenet_decoder}
