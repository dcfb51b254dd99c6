"""Products of x and a gate that x opens become one function, which other operations can apply.

x logistic(x) is silu(x), also known as swish. x times x / 6 + 1 / 2 between 0 and 1 is hard_swish(x). Formats
without hard_swish write the gate with relu01 or with relu6, and coremltools writes 0 for x where it is below
-3, where the gate is closed.
"""

from __future__ import annotations

from dataclasses import replace

from gpunn.graph.graph import Graph
from gpunn.graph.operation import Operand, Operation
from gpunn.graph.writers import Writers, writers_of
from gpunn.ops import OPS
from gpunn.ops.check import FLOATS
from gpunn.passes.forms import ADD, LOGISTIC, MUL, alone, number, pairs, readers_of, written_by
from gpunn.passes.prune import prune_unread
from gpunn.passes.rewrite import with_others

_DIV, _RELU01, _RELU6, _SELECT, _LESS, _ZEROS = (
    OPS[name] for name in ("div", "relu01", "relu6", "select", "less", "zeros_like")
)
_OFF = 2.0**-22  # by how much 1 / 6 may be off, relative to it; float32 rounds it by 2^-26


def fuse_swish(model: Graph) -> Graph:
    """Put silu and hard_swish in the place of products of real numbers that compute them."""
    writers, readers = writers_of(model), readers_of(model)
    found: dict[Operation, list[Operation]] = {}
    for product in model.operations:
        if product.definition is not MUL or product.activation is not None:
            continue
        if product.outputs[0].type.dtype not in FLOATS:
            continue
        for x, gate in pairs(product):
            swish = _swish(writers, x, gate)
            if swish is None or swish[1].type != product.outputs[0].type:
                continue
            op, x = swish
            if alone(writers, product, (x,), readers):
                found[product] = [replace(product, op=op, inputs=(x,), attrs={}, custom=None)]
                break
    return prune_unread(with_others(model, found)) if found else model


def _swish(writers: Writers, x: Operand, gate: Operand) -> tuple[str, Operand] | None:
    """Return the op that computes x times a gate, and of what; None if the gate is another one."""
    logistic = written_by(writers, gate, LOGISTIC)
    if logistic is not None:
        return ("silu", x) if logistic.inputs == (x,) else None
    return ("hard_swish", _above(writers, x)) if _is_hard_gate(writers, gate, x) else None


def _is_hard_gate(writers: Writers, gate: Operand, x: Operand) -> bool:
    """Tell whether a gate is x / 6 + 1 / 2 between 0 and 1."""
    clipped = written_by(writers, gate, _RELU01)
    line = None if clipped is None else written_by(writers, clipped.inputs[0], ADD)
    for part, half in () if line is None else pairs(line):
        if number(half) == 0.5 and _sixth_of(writers, part) is x:
            return True
    clipped = written_by(writers, _sixth_of(writers, gate), _RELU6)
    line = None if clipped is None else written_by(writers, clipped.inputs[0], ADD)
    return line is not None and any(a is x and number(b) == 3 for a, b in pairs(line))


def _sixth_of(writers: Writers, operand: Operand) -> Operand | None:
    """Return what an operand is a sixth of."""
    scaled = written_by(writers, operand, MUL, _DIV)
    for whole, constant in () if scaled is None else pairs(scaled):
        share = number(constant)
        if share and scaled is not None:
            off = share * 6 - 1 if scaled.definition is MUL else share / 6 - 1
            if abs(off) <= _OFF:
                return whole
    return None


def _above(writers: Writers, x: Operand) -> Operand:
    """Return what x is where that is not below a bound of -3 or less; elsewhere x is 0."""
    choice = written_by(writers, x, _SELECT)
    if choice is None:
        return x
    below, zeros, source = choice.inputs
    compared, made = written_by(writers, below, _LESS), written_by(writers, zeros, _ZEROS)
    if source is None or compared is None or made is None or compared.inputs[0] is not source:
        return x
    bound = number(compared.inputs[1])
    return source if bound is not None and bound <= -3 else x
