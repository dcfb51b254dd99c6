"""A product of x and logistic(x) becomes silu(x), also known as swish, which other operations can apply."""

from __future__ import annotations

from dataclasses import replace

from gpunn.graph.graph import Graph
from gpunn.graph.operation import Operation
from gpunn.ops.check import FLOATS
from gpunn.passes.rewrite import Private, absorb


def fuse_silu(model: Graph) -> Graph:
    """Replace products of real numbers with their own logistic function."""
    return absorb(model, _merge)


def _merge(product: Operation, private: Private) -> tuple[Operation, tuple[Operation]] | None:
    if product.op != "mul" or product.outputs[0].type.dtype not in FLOATS:
        return None
    for x, gate in (product.inputs, product.inputs[::-1]):
        gating = private(gate)
        if gating is not None and gating.op == "logistic" and gating.inputs == (x,):
            found = replace(product, op="silu", inputs=(x,), attrs={}, custom=None)
            return (found, (gating,)) if product.activation is None else None
    return None
