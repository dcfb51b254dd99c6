"""Functions of one integer of 8 bits as tables of all results, which passes make."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpunn.kernel import Kernel
from gpunn.ops.algebra import Algebra
from gpunn.ops.axes import ELEMENTWISE
from gpunn.ops.call import Call
from gpunn.ops.fixed_point.affine import LIMITS
from gpunn.ops.fixed_point.tables import read_table, table_facet, table_kernel
from gpunn.ops.op import EIGHT_BITS, Op, op
from gpunn.types import Array, TensorType

ENTRIES = 256


def _infer(call: Call) -> TensorType:
    x, table = call.x, call["table"]
    if x.dtype not in EIGHT_BITS:
        call.fail(f"input 0 must have 8 bits, got {x}")
    low, high = LIMITS[x.dtype]
    if len(table) != ENTRIES or not all(low <= entry <= high for entry in table):
        call.fail(f"table must have {ENTRIES} entries in {low} ... {high}")
    return x


def _table(call: Call) -> Array:
    return np.array(call["table"], call.y.dtype.numpy)


def _kernel(call: Call) -> Kernel:
    return table_kernel(call, _table(call))


@op(
    _infer,
    _kernel,
    dtypes=EIGHT_BITS,
    quantized=table_facet(_table, EIGHT_BITS),
    algebra=Algebra(pointwise=True, axes=ELEMENTWISE),
)
def lut(x: Array, *, table: Sequence[int]) -> Array:
    """Look every element up in a table of stored results, which stands at its bits.

    x int8 or uint8, any shape, with any quantisation; the result has its shape and dtype, and any
    quantisation. table: 256 integers of that dtype, for the bits 0 to 255 of x. Raises ModelError for other
    dtypes, and a table of another length or with other integers. TFLite schema, LOGISTIC and MUL: a pass
    makes it of such operations on quantised tensors.
    """
    return read_table(x, np.array(table, x.dtype))


OPS: tuple[Op, ...] = (lut,)
