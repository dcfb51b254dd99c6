"""Several operations that together are a function of one 8-bit tensor become one table of its results.

Converters write x logistic(x), and other activations, as operations on quantised tensors, each of which
rounds. A table of 256 results has the same bits, and one operation goes through memory instead of several;
on GPUs, convolutions look their results up before they store them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from gpunn.errors import ModelError
from gpunn.graph.consumers import consumers
from gpunn.graph.graph import Graph
from gpunn.graph.operation import Operand, Operation
from gpunn.ops.axes import ELEMENTWISE, PAIRWISE
from gpunn.ops.elementwise.lut import lut
from gpunn.ops.elementwise.quantize import quantize
from gpunn.ops.fixed_point.tables import every_value
from gpunn.ops.op import EIGHT_BITS
from gpunn.passes.prune import prune_unread
from gpunn.passes.requantize import results
from gpunn.passes.rewrite import with_others

MOST = 16  # operations of one table


class Chain(NamedTuple):
    """A tensor, and the operations, in the graph's order, of which the last one computes a function of it."""

    source: Operand
    operations: tuple[Operation, ...]


def tabulate(model: Graph) -> Graph:
    """Put a table in the place of operations between two 8-bit tensors, if nobody else reads from them."""
    readers, ends = consumers(model), model.results

    def private(operations: Sequence[Operation]) -> bool:
        between, inside = [o.outputs[0] for o in operations[:-1]], {*operations}
        return not any(b in ends or not inside.issuperset(readers[b]) for b in between)

    chains: dict[Operand, Chain] = {}
    for operation in model.operations:
        chain = _longer(operation, chains, private) if _elementwise(operation) else None
        if chain is not None:
            chains[operation.outputs[0]] = chain
    tables = [c for y, c in chains.items() if _stored(y) and y.type.dtype is c.source.type.dtype]
    within = {o for chain in tables for o in chain.operations[:-1]}
    instead = {}
    for chain in tables:
        *before, last = chain.operations
        made = _looked_up(chain) if before and last not in within else None
        if made is not None:
            instead[last] = [made]
    return prune_unread(with_others(model, instead)) if instead else model


def _longer(
    operation: Operation, chains: Mapping[Operand, Chain], private: Callable[[Sequence[Operation]], bool]
) -> Chain | None:
    """Return an operation with those before it that compute a function of the same 8-bit tensor.

    This is the first of which all its operands are functions, or else one of these. None if there is none.
    """
    operands = [o for o in operation.inputs if o is not None and o.value is None]
    known = {o: chains[o] for o in operands if o in chains}
    for source in dict.fromkeys((*(chain.source for chain in known.values()), *operands)):
        found = [Chain(o, ()) if o is source else known.get(o) for o in operands]
        alike = [chain for chain in found if chain is not None and chain.source is source]
        if len(alike) < len(operands) or not _stored(source):
            continue
        operations = (*dict.fromkeys(o for chain in alike for o in chain.operations), operation)
        if len(operations) <= MOST and private(operations):
            return Chain(source, operations)
    return None


def _elementwise(operation: Operation) -> bool:
    """Tell whether each element of the only result is the same function of those at its place."""
    if operation.custom or operation.guarded or len(operation.outputs) != 1:
        return False
    if operation.definition is quantize:
        x = operation.inputs[0]
        return x is not None and x.type.quantization is None  # or else it rounds the last ones in another way
    if operation.definition.algebra.axes not in (ELEMENTWISE, PAIRWISE):
        return False
    shape = operation.outputs[0].type.shape
    return all(
        o is not None and (o.type.shape == shape if o.value is None else o.type.size == 1)
        for o in operation.inputs
    )


def _stored(operand: Operand) -> bool:
    """Tell whether a tensor has 8 bits and one scale."""
    quantization = operand.type.quantization
    return operand.type.dtype in EIGHT_BITS and quantization is not None and quantization.per_tensor


def _looked_up(chain: Chain) -> Operation | None:
    """Return the operation that looks the results of others up; None if they cannot compute a table."""
    x, last = chain.source, chain.operations[-1]
    try:
        table = results(chain.operations, x, every_value(x.type).astype(x.type.dtype.numpy))
    except ModelError:
        return None
    return replace(last, op=lut.name, inputs=(x,), attrs={"table": tuple(table.tolist())})
