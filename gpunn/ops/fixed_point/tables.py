"""Functions of a number of 8 or 16 bits as tables of all results: the same bits on every device.

Entry k belongs to the stored value with the bits k, so that the bits themselves are the index, for signed and
unsigned dtypes: 256 results, or 65,536.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from gpunn.kernel import Function, Kernel, Read, Write, ceil_div, flat_threads
from gpunn.ops.call import Call
from gpunn.ops.compiled import IntegerLoops, integer_loops
from gpunn.ops.compiled.capture import of_loops
from gpunn.ops.compiled.rows import ENTRIES
from gpunn.ops.compiled.sharing import OF_TABLES, rows_divided
from gpunn.ops.fixed_point.affine import (
    LIMITS,
    clamp_bounds,
    divide_by_power,
    inverse_root,
    quantize,
    quantize_multiplier,
    ratio,
    rescale,
    round_half_away,
    scale_of,
    short_multiplier,
    store,
    times,
)
from gpunn.ops.fixed_point.fixed16 import saturate
from gpunn.ops.memory import empty
from gpunn.ops.op import EIGHT_BITS, Quantized
from gpunn.pointwise import Pointwise, Repeat
from gpunn.types import Array, DType, TensorType

Bounds = tuple[int, int]
_ROOT_BITS = 20  # of the fraction of inverse roots
# Fours that an invocation of software looks up, from so many on: to start one takes as long as two look-ups.
_EACH, _MANY = 8, 1 << 12
KEPT = 32  # tables of each op that have lately been made


def every_value(type: TensorType) -> Array:
    """List all stored values of a dtype of 8 or 16 bits as int64, in the order of their bytes."""
    unsigned = np.dtype(f"u{type.dtype.itemsize}")
    return np.arange(256**type.dtype.itemsize).astype(unsigned).view(type.dtype.numpy).astype(np.int64)


def every_real(call: Call, type: TensorType) -> Array:
    """List the real numbers of all stored values of `type`, in float64."""
    scale, zero = scale_of(call, type)
    return np.asarray((every_value(type) - zero) * scale)


def real_table(call: Call, meaning: Callable[[Array], Array]) -> Array:
    """List the stored results of a real function: in float64, rounded once, halves away from zero."""
    scale_of(call, call.y)
    with np.errstate(all="ignore"):  # log and sqrt of what is not in their domain; NaN is stored as 0
        results = meaning(every_real(call, call.x))
        return quantize(results, call.y.with_shape(results.shape))


def log_table(call: Call) -> Array:
    """List the results of log; numbers below 0, which have none, give the lowest, as in TFLite."""
    return real_table(call, lambda x: np.log(np.maximum(x, 0)))


def logistic_table(call: Call) -> Array:
    """List the results of logistic: an exp, a sum and a quotient that are each rounded to float32."""
    return _single_table(call, lambda x: np.float32(1) / (np.float32(1) + _rounded(np.exp, -x)))


def sqrt_table(call: Call) -> Array:
    """List the results of sqrt, computed in float32 and then without their fraction."""
    (scale, zero), (to_scale, to_zero) = scale_of(call, call.x), scale_of(call, call.y)
    x = np.maximum(every_value(call.x) - zero, 0)
    with np.errstate(over="ignore"):
        roots = np.sqrt(np.float32(scale) * x.astype(np.float32)) / np.float32(to_scale)
    return store(_whole(roots) + to_zero, call.y, LIMITS[call.y.dtype])


def _whole(x: Array) -> Array:
    """Convert real numbers to integers of 32 bits, without their fraction; NaN becomes 0."""
    return np.nan_to_num(x).clip(*LIMITS[DType.INT32]).astype(np.int64)


def rsqrt_table(call: Call) -> Array:
    """List the results of rsqrt on 8 bits, in fixed point (TFLite's elementwise.cc, RsqrtEvalQuantized)."""
    (scale, zero), (to_scale, to_zero) = scale_of(call, call.x), scale_of(call, call.y)
    x = every_value(call.x) - zero
    m, shift = inverse_root(np.maximum(x, 1))
    roots = rescale(np.ones_like(x), m, shift + _ROOT_BITS)
    factor, exponent = quantize_multiplier(1 / (math.sqrt(scale) * to_scale))
    found = rescale(roots, factor, exponent - _ROOT_BITS) + to_zero
    # 1 / 0 is infinite; there is no root below 0, and NaN is stored as 0.
    found = np.select([x > 0, x == 0], [found, np.full_like(x, LIMITS[call.y.dtype][1])], to_zero)
    return store(found, call.y, LIMITS[call.y.dtype])


def tanh_table(call: Call) -> Array:
    """List the results of tanh, rounded to float32 first."""
    return _single_table(call, lambda x: _rounded(np.tanh, x))


def _rounded(function: Callable[[Array], Array], x: Array) -> Array:
    """Compute a function in float32, rounded correctly, which numpy's own of float32 are not everywhere."""
    return np.asarray(function(x.astype(np.float64)), np.float32)


def _single_table(call: Call, meaning: Callable[[Array], Array]) -> Array:
    """List the stored results of a function of float32, with TFLite's arithmetic (common.h, LUTPopulate)."""
    (scale, zero), (to_scale, to_zero) = scale_of(call, call.x), scale_of(call, call.y)
    with np.errstate(over="ignore", invalid="ignore"):
        x = np.float32(scale) * (every_value(call.x) - zero).astype(np.float32)
        scaled = meaning(x) * (np.float32(1) / np.float32(to_scale))
    return store(_whole(round_half_away(scaled)) + to_zero, call.y, LIMITS[call.y.dtype])


def rescale_table(
    call: Call, source: TensorType, target: TensorType, bounds: Bounds, below: float = 1.0
) -> Array:
    """Convert stored values of `source` to those of `target`, clamped to `bounds`, in fixed point.

    Negative real numbers are multiplied by `below` as well. Factors are float32 quotients, as TFLite's
    Prepare functions compute them.
    """
    (scale, zero), (to_scale, to_zero) = scale_of(call, source), scale_of(call, target)
    x = every_value(source) - zero
    negative = ratio(times(scale, below), to_scale)
    scaled = np.where(
        x < 0,
        _rescaled(-x if negative < 0 else x, abs(negative)),
        _rescaled(x, ratio(scale, to_scale)),
    )
    return store(scaled + to_zero, target, bounds)


def _rescaled(x: Array, factor: float) -> Array:
    """Multiply x in fixed point by a real factor.

    From 2^30 on, a step of x is more than all results, and by as many bits LiteRT does not shift rightly.
    """
    return rescale(np.clip(x, -1, 1) if factor >= 2.0**30 else x, *quantize_multiplier(factor))


def read_table(x: Array, table: Array) -> Array:
    """Look stored values up in a table."""
    loops = integer_loops()
    if loops is None or x.itemsize + table.itemsize > 2:
        return table.take(x.view(f"u{x.itemsize}"))
    result = empty(x.shape, table.dtype)
    write_table(loops, np.asarray(x, order="C").reshape(-1), table, result.reshape(-1))
    return of_loops(result)


def write_table(loops: IntegerLoops, x: Array, table: Array, out: Array) -> None:
    """Look flat stored values of 8 bits up in a table of results of 8 bits, in a loop."""
    parts = rows_divided(x.size, x.size, ENTRIES, OF_TABLES)
    loops.look_up(parts, x.view(np.uint8), table.view(np.uint8), out.view(np.uint8))


def last_entry(dtype: DType) -> int:
    """Return the number of the last entry of a table for a dtype; it masks the bits of stored values."""
    return int(256**dtype.itemsize - 1)


def entry(table: str, value: str, dtype: DType) -> str:
    """Write the WGSL expression that looks a stored value of a dtype up in the operand `table`."""
    return f"load_{table}(u32({value}) & {last_entry(dtype)}u)"


def table_kernel(call: Call, table: Array, rest: tuple[int, Array] | None = None) -> Kernel:
    """Make a kernel that looks up every element of a tensor of 8 or 16 bits, four at a time.

    rest: the element from which another table counts, a multiple of four, and that table. The last four may
    reach into the padding of both tensors (a multiple of 16 bytes, gpunn/kernel.py).
    """
    count = ceil_div(call.x.size, 4)
    each = _EACH if call.device.software and count >= _MANY else 1
    first, tables = (4 * count, table) if rest is None else (rest[0], np.concatenate([table, rest[1]]))
    if call.device.texels and call.x.dtype in EIGHT_BITS and tables.dtype.kind != "f":
        tables = tables.astype(np.int32)  # what a texel has; SwiftShader is slow with bytes
    found = Function(("x",), entry("table", "x", call.x.dtype), ("x",), "table")
    pointwise = Pointwise("look_up(x)", {"x": Repeat(call.x.size)}) if rest is None else None
    return Kernel(
        body="table",
        threads=flat_threads(ceil_div(count, each)),
        reads=(
            Read("x", 0, width=4),
            Read("table", None, value=tables, looked_up=call.device.looks_up_texels),
        ),
        writes=(Write(width=4),),
        params={"count": ceil_div(count, each), "fours": count, "each": each, "first": first // 4},
        constants={"LAST": last_entry(call.x.dtype)},
        functions={"look_up": found},
        lanes=4,
        rounded_up=call.x.size % 4 > 0,
        pointwise=pointwise,
        reason=f"a table of {len(table)} results",
    )


def table_facet(table: Callable[[Call], Array], dtypes: tuple[DType, ...]) -> Quantized:
    """Make the integer facet of an op that is one table for each call, for stored values of `dtypes`.

    The last tables are kept, and by whoever prepares a call its own: 16-bit tables take longer to make than
    most tensors take to look up, and a network may have more of them.
    """

    @functools.lru_cache(KEPT)
    def made(op: str, origin: str, x: TensorType, y: TensorType, attrs: tuple[tuple[str, Any], ...]) -> Array:
        return table(Call(op, origin, (x,), dict(attrs), (y,)))

    def results(call: Call) -> Array:
        x, y = call.x.with_shape(()), call.y.with_shape(())
        return made(call.op, call.origin, x, y, tuple(call.attrs.items()))

    def prepare(call: Call) -> Callable[[Array], Array]:
        table = functools.cache(lambda: results(call))  # which the first run makes
        return lambda x: read_table(x, table())

    return Quantized.prepared(prepare, lambda call: table_kernel(call, results(call)), dtypes=dtypes)


def clamped_table(call: Call, name: str | None) -> Array:
    """Make the rescale_table from the call's first input to its result, with the activation of that name."""
    return rescale_table(call, call.x, call.y, clamp_bounds(call, call.y, name))


def hard_swish_table(call: Call) -> Array:
    """Compute hard_swish in 16-bit fixed point, as in TFLite's reference kernel (hard_swish.h).

    x, in steps of 1/128 of its scale, is multiplied by relu6(x + 3) / 6: this factor is x in steps of 3 /
    2^15, saturated at -3 and 3, moved to 0 ... 1.
    """
    (scale, zero), (to_scale, to_zero) = scale_of(call, call.x), scale_of(call, call.y)
    step = times(scale, 1 / 128)
    x = (every_value(call.x) - zero) << 7
    multiplier, exponent = _short_multiplier(ratio(step, to_scale))
    part, part_exponent = _short_multiplier(ratio(step, 3 / 2**15))
    gate = saturate(x << max(part_exponent - 1, 0))
    gate = _high_multiply_16(gate, part)
    gate = saturate(gate << 1) if part_exponent > 0 else divide_by_power(gate, -part_exponent)
    gate = (gate + 2**15) >> 1
    product = gate * _high_multiply_16(x, multiplier)
    halved = np.where(product >= 0, product >> 15, -((-product) >> 15))
    result = divide_by_power(halved << max(exponent, 0), max(-exponent, 0)) + to_zero
    return store(result, call.y, LIMITS[call.y.dtype])


def _short_multiplier(factor: float) -> tuple[int, int]:
    """Compute quantize_multiplier() with 15 instead of 31 bits."""
    m, shift = quantize_multiplier(factor)
    return int(short_multiplier(m)), shift


def _high_multiply_16(a: Array, b: int) -> Array:
    """Compute high_multiply() of 16-bit numbers: a * b / 2^15, rounded to nearest."""
    nudged = a * b + np.where(a * b >= 0, 2**14, 1 - 2**14)
    return np.where(nudged >= 0, nudged >> 15, -((-nudged) >> 15))
