"""Real numbers between DEQUANTIZE and QUANTIZE, if an operation on integers gives the same bits.

A function of one 8-bit number is compared for all 256 of them; if one result differs, it stays. From one
scale to another, the last elements after groups of sixteen round in another way: they are compared too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from gpunn.errors import ModelError
from gpunn.graph.consumers import consumers
from gpunn.graph.graph import Graph
from gpunn.graph.operation import Lifetime, Operand, Operation
from gpunn.ops.elementwise.quantize import dequantize, quantize
from gpunn.ops.fixed_point.tables import every_value
from gpunn.ops.movement.basic import reshape
from gpunn.ops.op import EIGHT_BITS
from gpunn.passes.rewrite import Private, absorb
from gpunn.types import Array

LEFT_OVER = 8  # elements of a row that is shorter than sixteen


def sink_dequantize(model: Graph) -> Graph:
    """Move DEQUANTIZE behind operations that only move its result: bytes are moved instead of real numbers.

    This alone saves nothing, but behind the move may be another one that cancels it, or a QUANTIZE.
    """
    if all(operation.definition is not dequantize for operation in model.operations):
        return model
    readers = {operand: len(found) for operand, found in consumers(model).items()}
    results = model.results
    kept: dict[Operand, Operation] = {}
    for operation in model.operations:
        between, result = operation.inputs[0], operation.outputs[0]
        permutes = operation.definition.algebra.permutes
        source = kept.get(between) if between is not None and permutes else None
        stored = None if source is None else _stored(source)
        if source is None or stored is None or between in results or readers[source.outputs[0]] != 1:
            kept[result] = operation
            continue
        del kept[source.outputs[0]]
        moved = Operand(result.name, stored.type.with_shape(result.type.shape), Lifetime.TEMPORARY)
        readers[moved] = 1
        kept[moved] = replace(operation, inputs=(stored,), outputs=(moved,))
        kept[result] = replace(source, inputs=(moved,), outputs=operation.outputs)
    return model.with_operations(kept.values())


def fuse_quantize(model: Graph) -> Graph:
    """Fuse DEQUANTIZE, at most one elementwise function and QUANTIZE into one operation with the same
    results.
    """
    return absorb(model, _merge)


def _merge(last: Operation, private: Private) -> tuple[Operation, tuple[Operation, ...]] | None:
    before = private(last.inputs[0]) if last.definition is quantize else None
    function = before if before is not None and before.definition.algebra.pointwise else None
    first = before if function is None else private(function.inputs[0])
    stored = None if first is None else _stored(first)
    if first is None or stored is None or last.outputs[0].type.dtype not in EIGHT_BITS:
        return None
    chain = (first, last) if function is None else (first, function, last)
    result = last.outputs[0]
    if stored.type == result.type and _same(chain, (), stored):
        nothing = {"shape": result.type.shape}
        return replace(last, op=reshape.name, inputs=(stored,), attrs=nothing), chain[:-1]
    merged = replace(function or last, inputs=(stored,), outputs=(result,))
    return (merged, chain[:-1]) if _same(chain, (merged,), stored) else None


def _stored(operation: Operation) -> Operand | None:
    """Return the 8-bit tensor of one scale that an operation dequantises."""
    x = operation.inputs[0]
    if operation.definition is not dequantize or x is None or x.type.dtype not in EIGHT_BITS:
        return None
    return x if x.type.quantization is not None and x.type.quantization.per_tensor else None


def _same(chain: Sequence[Operation], other: Sequence[Operation], stored: Operand) -> bool:
    """Tell whether two chains of operations have the same results for all possible values of a tensor."""
    values = every_value(stored.type).astype(stored.type.dtype.numpy)
    rows = [values]
    if any(operation.definition is quantize for operation in other):
        rows += list(values.reshape(-1, LEFT_OVER))
    try:
        return all(np.array_equal(results(chain, stored, r), results(other, stored, r)) for r in rows)
    except ModelError:
        return False


def results(operations: Sequence[Operation], x: Operand, row: Array) -> Array:
    """Compute for a row of values of x what the last of several elementwise operations makes of it.

    Their other operands are constants of one element.
    """
    found, last = {x: row}, row
    for operation in operations:
        given = [o for o in operation.inputs if o is not None]
        inputs = tuple(_like(o, row) if o in found else _scalar(o) for o in given)
        outputs = tuple(_like(o, row) for o in operation.outputs)
        values = [found.get(o, scalar.value) for o, scalar in zip(given, inputs, strict=True)]
        (last,) = replace(operation, inputs=inputs, outputs=outputs).evaluate(values)
        found[operation.outputs[0]] = last
    return last


def _like(operand: Operand, row: Array) -> Operand:
    return replace(operand, type=operand.type.with_shape(row.shape))


def _scalar(operand: Operand) -> Operand:
    assert operand.value is not None
    return replace(operand, type=operand.type.with_shape(()), value=operand.value.reshape(()))
