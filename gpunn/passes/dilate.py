"""Dilated convolutions, which older converters write as SPACE_TO_BATCH_ND, convolution, BATCH_TO_SPACE_ND.

Output cell j of phase p, which becomes output pixel i = j b + p, reads the padded image at (j + k d - q) b +
p = i + (k d - q) b for every k, where b is the block, d the convolution's own dilation and q its padding.
This is a convolution with dilation b d, whose padding is q b plus the image's padding minus the crop.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from gpunn.graph.graph import Graph
from gpunn.graph.operation import Operation
from gpunn.ops.algebra import Border
from gpunn.ops.kernels.window import Pair
from gpunn.ops.movement.rearrange import batch_to_space_nd, space_to_batch_nd
from gpunn.passes.fuse import explicit_padding, zero_of
from gpunn.passes.rewrite import Private, absorb, allowed, keeps_scale


def fuse_dilation(model: Graph) -> Graph:
    """Replace a convolution between blocks in the batch by one with dilation.

    It stays if the blocks differ, the padding is not 0, or the crop exceeds the padding.
    """
    return absorb(model, _merge)


def _merge(back: Operation, private: Private) -> tuple[Operation, tuple[Operation, ...]] | None:
    layer = private(back.inputs[0]) if back.definition is batch_to_space_nd else None
    blocks = private(layer.inputs[0]) if layer is not None and _is_convolution(layer) else None
    if layer is None or blocks is None or blocks.definition is not space_to_batch_nd:
        return None
    attrs = _dilated(blocks, layer, back)
    if attrs is None or not (keeps_scale(blocks) and keeps_scale(back)):
        return None
    merged = replace(layer, inputs=(blocks.inputs[0], *layer.inputs[1:]), outputs=back.outputs, attrs=attrs)
    return (merged, (blocks, layer)) if allowed(merged) else None


def _is_convolution(layer: Operation) -> bool:
    return layer.definition.algebra.border is Border.ZERO and "dilation" in layer.attrs


def _dilated(blocks: Operation, layer: Operation, back: Operation) -> dict[str, Any] | None:
    image, cells = blocks.inputs[0], blocks.outputs[0]
    block = tuple(blocks.attrs["block_shape"])
    paddings, crops = ([tuple(p) for p in o.attrs[a]] for o, a in ((blocks, "paddings"), (back, "crops")))
    fits = tuple(back.attrs["block_shape"]) == block and len(block) <= 2 and cells.type.rank == 4
    if not fits or image is None or tuple(layer.attrs["stride"]) != (1, 1):
        return None
    if blocks.attrs["value"] != zero_of(image) and any(map(any, paddings)):
        return None
    rest = 2 - len(block)  # a block of one number leaves the width alone
    block, paddings, crops = (*block, *[1] * rest), [*paddings, *[(0, 0)] * rest], [*crops, *[(0, 0)] * rest]
    margins: list[Pair] = []
    for b, outer, own, crop in zip(block, paddings, explicit_padding(layer, cells), crops, strict=True):
        margins.append((outer[0] + own[0] * b - crop[0], outer[1] + own[1] * b - crop[1]))
    if min(map(min, margins)) < 0:
        return None
    dilation = tuple(d * b for d, b in zip(layer.attrs["dilation"], block, strict=True))
    return {**layer.attrs, "dilation": dilation, "padding": tuple(margins)}
