"""Every op by name, gathered from the families, one module each."""

from __future__ import annotations

from gpunn.ops import (
    binary,
    conv,
    lookup,
    matmul,
    movement,
    normalize,
    pool,
    quantize,
    rearrange,
    recurrent,
    reduce,
    resize,
    unary,
)
from gpunn.ops.op import Op

_FAMILIES = (
    unary.OPS,
    binary.OPS,
    conv.OPS,
    pool.OPS,
    matmul.OPS,
    reduce.OPS,
    movement.OPS,
    rearrange.OPS,
    normalize.OPS,
    resize.OPS,
    quantize.OPS,
    lookup.OPS,
    recurrent.OPS,
)

OPS: dict[str, Op] = {op.name: op for family in _FAMILIES for op in family}
