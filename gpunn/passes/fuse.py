"""Fusion: a pad or an activation becomes part of the operation next to it.

An activation is absorbed only if nothing else reads what it activates, a pad if all that read its result
absorb it; neither if that is a result of the model. The remaining operation writes the operand that was
written last, under its own origin.
"""

from __future__ import annotations

import math
from dataclasses import replace

from gpunn.graph.consumers import consumers
from gpunn.graph.graph import Graph
from gpunn.graph.operation import Operand, Operation
from gpunn.graph.writers import Writers, writers_of
from gpunn.ops.algebra import Border
from gpunn.ops.elementwise.unary import ACTIVATIONS
from gpunn.ops.fixed_point.affine import CLAMPS, LIMITS, clamp_bounds
from gpunn.ops.kernels.window import Pair, resolve
from gpunn.ops.movement import basic
from gpunn.passes.rewrite import absorb_pairs, allowed, keeps_scale


def fuse_pad(model: Graph) -> Graph:
    """Make padding of height and width before a window that can pad the window's own.

    A convolution pads with the value for 0, a max pool with a value that no element is below. Average and L2
    pools stay as they are: they count the cells of earlier padding (average_pad.py).
    """
    writers, readers, results = writers_of(model), consumers(model), model.results
    merged: dict[Operation, Operation] = {}
    gone: set[Operation] = set()
    for pad in reversed(model.operations):
        if pad.definition is not basic.pad or pad.outputs[0] in results:
            continue
        layers = readers.get(pad.outputs[0], [])
        found = [_merge_pad(pad, merged.get(layer, layer), pad.outputs[0], writers) for layer in layers]
        if found and None not in found:
            merged.update((layer, new) for layer, new in zip(layers, found, strict=True) if new is not None)
            gone.add(pad)
            x = pad.inputs[0]
            assert x is not None
            readers[x] = [*(o for o in readers[x] if o is not pad), *layers]
    if not gone:
        return model
    return model.with_operations(merged.get(o, o) for o in model.operations if o not in gone)


def fuse_activation(model: Graph) -> Graph:
    """Make an activation after an op that can apply it the op's attribute `activation`."""
    return absorb_pairs(model, _merge_activation)


def _merge_pad(pad: Operation, layer: Operation, between: Operand, writers: Writers) -> Operation | None:
    x = pad.inputs[0]
    if pad.definition is not basic.pad or x is None or not keeps_scale(pad):
        return None
    if layer.inputs[0] is not between or between in layer.inputs[1:] or between.type.rank != 4:
        return None
    value, border = pad.attrs["value"], layer.definition.algebra.border
    if border is Border.ZERO:
        fits = value == zero_of(between)
    else:
        fits = border is Border.LOWEST and value <= _least(x, writers.get(x))
    batch, rows, columns, channels = (tuple(pair) for pair in pad.attrs["paddings"])
    if not fits or any((*batch, *channels)):
        return None
    own = explicit_padding(layer, between)
    padding = tuple((p[0] + q[0], p[1] + q[1]) for p, q in zip((rows, columns), own, strict=True))
    merged = replace(layer, inputs=(x, *layer.inputs[1:]), attrs={**layer.attrs, "padding": padding})
    return merged if allowed(merged) else None


def zero_of(operand: Operand) -> int:
    """Return the stored value for 0 in a tensor."""
    quantization = operand.type.quantization
    return 0 if quantization is None else quantization.zero_point[0]


def _least(x: Operand, writer: Operation | None) -> float:
    """Return a lower bound of the elements of x, as stored."""
    name = None
    if writer is not None:
        name = writer.attrs["activation"] if writer.definition.fusible else writer.op
    bounded = name if name in CLAMPS else None
    if x.type.quantization is None:
        low, _ = (None, None) if bounded is None else CLAMPS[bounded]
        return -math.inf if low is None else low
    if writer is None or bounded is None:
        return LIMITS[x.type.dtype][0]
    return clamp_bounds(writer.call(), x.type, bounded)[0]


def explicit_padding(layer: Operation, image: Operand) -> tuple[Pair, Pair]:
    """Return the padding of a windowed operation over `image` as numbers: ((top, bottom), (left, right))."""
    attrs = layer.attrs
    kernel = attrs["size"] if "size" in attrs else layer.call().input(1).shape[1:3]
    window = resolve(
        (image.type.shape[1], image.type.shape[2]),
        (kernel[0], kernel[1]),
        attrs["stride"],
        attrs.get("dilation", (1, 1)),
        attrs["padding"],
    )
    (top, left), (bottom, right) = window.before, window.after
    return (top, bottom), (left, right)


def _merge_activation(layer: Operation, unary: Operation, between: Operand) -> Operation | None:
    if unary.op not in ACTIVATIONS or not layer.definition.fusible or layer.attrs["activation"] is not None:
        return None
    # Rescaling rounds once more, and only a clamp under the same scale and zero point changes nothing else.
    if unary.integer and (unary.op not in CLAMPS or between.type != unary.outputs[0].type):
        return None
    return replace(layer, outputs=unary.outputs, attrs={**layer.attrs, "activation": unary.op})
