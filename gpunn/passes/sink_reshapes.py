"""Reshapes change places with a neighbour that keeps two others apart which fit together.

What is written as a layer of fewer axes, as conv3d is, has a reshape before it and one behind it. Arithmetic
and activations move before the latter, a pad behind the former.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import replace

from gpunn.graph.graph import Graph
from gpunn.graph.operation import Lifetime, Operand, Operation
from gpunn.ops.elementwise.unary import ACTIVATIONS
from gpunn.ops.movement.basic import pad, reshape
from gpunn.passes.combine import reshapes
from gpunn.passes.forms import readers_of
from gpunn.passes.rewrite import keeps_scale
from gpunn.passes.scale import change_of, output_axis
from gpunn.types import Shape


def sink_reshapes(model: Graph) -> Graph:
    """Move reshapes of a layer's result behind arithmetic on each channel, and pads behind a reshape.

    Nothing else may read what lies between.
    """
    readers = dict(readers_of(model))
    writers: dict[Operand | None, Operation] = {}
    by_layers: set[Operand] = set()  # results of layers, and of arithmetic that has moved behind these
    kept: dict[Operation, None] = {}
    changed = False
    for operation in model.operations:
        made = [operation]
        for first in [writers[o] for o in operation.inputs if o in writers and readers[o] == 1]:
            if found := _exchanged(first, operation, by_layers):
                made, changed = found, True
                readers[found[0].outputs[0]] = 1
                del kept[first]
                break
        if output_axis(made[0]) is not None or (len(made) > 1 and made[-1].definition is reshape):
            by_layers.update(made[0].outputs)
        for each in made:
            kept[each] = None
            writers.update((result, each) for result in each.outputs)
    return model.with_operations(kept) if changed else model


def _exchanged(first: Operation, second: Operation, by_layers: Collection[Operand]) -> list[Operation]:
    """Return two operations in the place of these, in the other order; [] if they stay."""
    x = first.inputs[0]
    if x is None:
        return []
    return _reshaped_last(first, second, x) if x in by_layers else _padded_last(first, second, x)


def _padded_last(first: Operation, second: Operation, x: Operand) -> list[Operation]:
    """Return a reshape and a pad that do what a pad and a reshape do; [] for others.

    The reshape keeps the axes that are padded.
    """
    if first.definition is not pad or not reshapes(second) or not keeps_scale(first):
        return []
    y = second.outputs[0]
    shape, paddings = list(y.type.shape), [(0, 0)] * y.type.rank
    for axis, pair in enumerate(first.attrs["paddings"]):
        if not any(pair):
            continue
        place = _place(first.outputs[0].type.shape, axis, y.type.shape)
        if place is None:
            return []
        shape[place], paddings[place] = x.type.shape[axis], tuple(pair)
    between = Operand(f"{y.name}: {reshape.name}", x.type.with_shape(tuple(shape)), Lifetime.TEMPORARY)
    move = replace(second, op=reshape.name, inputs=(x,), outputs=(between,), attrs={"shape": tuple(shape)})
    attrs = {**first.attrs, "paddings": tuple(paddings)}
    return [move, replace(first, inputs=(between, *first.inputs[1:]), outputs=(y,), attrs=attrs)]


def _place(shape: Shape, axis: int, other: Shape) -> int | None:
    """Return the axis of another shape of as many elements that is the same as one of `shape`."""
    before = math.prod(shape[:axis])
    for place, extent in enumerate(other):
        if extent == shape[axis] and math.prod(other[:place]) == before:
            return place
    return None


def _reshaped_last(first: Operation, second: Operation, x: Operand) -> list[Operation]:
    """Return arithmetic and a reshape that do what a reshape of a layer's result and arithmetic do.

    The arithmetic has one operand, or another one for each channel, which the reshape keeps. [] for others.
    """
    between, y = first.outputs[0], second.outputs[0]
    if not reshapes(first) or y.type != between.type:
        return []
    if second.op not in ACTIVATIONS and (len(second.inputs) != 2 or change_of(second, between) is None):
        return []
    if x.type.shape[-1:] != y.type.shape[-1:] or second.integer:
        return []
    inputs = tuple(x if o is between else _by_channel(o) for o in second.inputs)
    result = Operand(f"{y.name}: {second.op}", x.type, Lifetime.TEMPORARY)
    attrs = {"shape": y.type.shape}
    move = replace(first, op=reshape.name, inputs=(result,), outputs=(y,), attrs=attrs)
    return [replace(second, inputs=inputs, outputs=(result,)), move]


def _by_channel(constant: Operand | None) -> Operand | None:
    """Return a constant of one number, or of one for each channel, without axes of extent 1 before."""
    if constant is None or constant.value is None:
        return constant
    value = constant.value.reshape(-1)
    return replace(constant, type=constant.type.with_shape(value.shape), value=value)
