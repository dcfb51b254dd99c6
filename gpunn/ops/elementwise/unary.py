"""Element-wise functions of one tensor; most also serve as fused activations.

A line of TABLE is an op: its meaning in numpy, the same as a WGSL expression in `x`, and the domain it
is tested on. WGSL's min, max and clamp drop NaN and numpy keeps it, so the expressions use select(). What
WGSL leaves loose is computed by elementary.wgsl and hyperbolic.wgsl in shaders/lib.

Shapes: any; the result has the input's. dtype: float32, float16, or quantised uint8, int8 or int16, for
which every function is a table of all results (ops/fixed_point/tables.py); where the line says so, int32,
int64 or bool too, and there results wrap around. Raises ModelError for other dtypes.
sign_bit is 1 below 0, else 0, of -0 and NaN, too. silu is x logistic(x), two operations in files; -inf gives
about 0.
Functions are defined on all numbers: what has no real result is NaN (log and sqrt below 0, sin of an
infinity, acosh below 1, atanh beyond 1), log(0) is -inf, rsqrt(0) and atanh(1) inf, what is too large inf,
and NaN stays NaN. Subnormal numbers may count as 0.
Meaning: NeuralNetworks.h, ANEURALNETWORKS_RELU, _RELU1, _RELU6, _LOGISTIC, _TANH, _FLOOR; TFLite schema,
the operators of these names, LeakyReluOptions, FakeQuantOptions, GeluOptions (approximate: gelu_tanh);
NeuralNetwork.proto of Core ML, the layers of these names.
Accuracy: the general promise (atol 1e-5, rtol 5 eps of float32); fake_quant may take the neighbouring step
where x lies halfway between two.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gpunn.kernel import Function, keep_nan
from gpunn.ops.accuracy import BASIC, Accuracy
from gpunn.ops.call import Call
from gpunn.ops.check import FLOATS
from gpunn.ops.compiled import TOGETHER, real_loops
from gpunn.ops.compiled.sharing import rows_divided
from gpunn.ops.elementwise import fake_quant, gates, gaussian
from gpunn.ops.elementwise.unary_declaration import Fused, Table, Unary, declare
from gpunn.ops.fixed_point import interpolation
from gpunn.ops.fixed_point.affine import LIMITS
from gpunn.ops.fixed_point.tables import (
    clamped_table,
    hard_swish_table,
    log_table,
    logistic_table,
    rescale_table,
    rsqrt_table,
    sqrt_table,
    tanh_table,
)
from gpunn.ops.memory import empty
from gpunn.ops.op import Op
from gpunn.types import Array, DType


def _clip(low: float, high: float | None) -> Callable[[Array], Array]:
    return lambda x: np.clip(x, *clip_ends(low, high, x.dtype))


def clip_ends(low: float, high: float | None, dtype: np.dtype[Any]) -> tuple[Any, Any]:
    """Return the bounds of an activation as numbers of a dtype, of which unsigned ones begin at 0."""
    low = max(low, 0) if dtype.kind == "u" else low
    return dtype.type(low), None if high is None else dtype.type(high)


def _sign_bit(x: Array) -> Array:
    return np.asarray(x < 0, x.dtype)


def _leave(function: Callable[..., Any]) -> Callable[[Array], Array]:
    """Return numpy's function unchanged."""

    def meaning(x: Array) -> Array:
        return np.asarray(function(x))

    return meaning


def _rsqrt(x: Array) -> Array:
    return np.asarray(x.dtype.type(1) / np.sqrt(x))


def _elu(x: Array) -> Array:
    return np.asarray(np.maximum(x, np.expm1(np.minimum(x, x.dtype.type(0)))))


def _zeros(x: Array) -> Array:
    return np.zeros_like(x)


def _logical_not(x: Array) -> Array:
    return np.logical_not(x)


def _leaky_relu(x: Array, *, alpha: float) -> Array:
    slope = x.dtype.type(alpha)  # 0, if alpha is too small for the type
    loops = real_loops() if x.dtype == np.float32 and x.flags.c_contiguous else None
    if loops is not None:
        result = empty(x.shape, x.dtype)
        loops.leaky(rows_divided(x.size, x.size, TOGETHER), x.reshape(-1), slope, result.reshape(-1))
        return result
    scaled = slope * x
    # A choice takes many times as long, as a CPU cannot foresee it.
    return np.asarray(np.maximum(x, scaled) if 0 < slope <= 1 else np.where(x < 0, scaled, x))


def _clamped(call: Call) -> Array:
    return clamped_table(call, call.op)


def _leaked(call: Call) -> Array:
    return rescale_table(call, call.x, call.y, LIMITS[call.y.dtype], call["alpha"])


def _magnitudes(call: Call) -> Array:
    """Rescale magnitudes in fixed point (TFLite's elementwise.cc, AbsEvalQuantized)."""
    return rescale_table(call, call.x, call.y, LIMITS[call.y.dtype], -1.0)


_SIGNED = (*FLOATS, DType.INT32, DType.INT64)
_SHORT = (*_SIGNED, DType.INT16)
_INT64_SIGN = "i64_from_i32((i32(x.y) >> 31u) | i32(any(x != T())))"


def _root(
    name: str, meaning: Callable[[Array], Array], expression: str, table: Table, table16: Table
) -> Unary:
    """Make the line of a root, with its tables of 8 and of 16 bits."""
    return Unary(name, meaning, expression, (-1, 1e4), table=table, table16=table16, library="elementary")


def _between(name: str, low: int, high: int | None, domain: tuple[float, float]) -> Unary:
    """Make the line of an activation that clips, for all numbers."""
    above = f"i64_max(x, i64_from_i32({low}))"
    return Unary(
        name,
        _clip(low, high),
        f"max(x, T({low}))" if high is None else f"clamp(x, T({low}), T({high}))",
        domain,
        fused=Fused(),
        nan=True,
        integer=True,
        table=_clamped,
        int64=above if high is None else f"i64_min({above}, i64_from_i32({high}))",
        table16=_clamped,
        accuracy=BASIC,
    )


_GELU_TABLE16 = interpolation.table(gaussian.gelu, single=interpolation.gelu)
_GELU_TANH_TABLE16 = interpolation.table(gaussian.gelu_tanh, single=interpolation.gelu_tanh)

# WGSL leaves exp and tanh loose where they overflow, so their arguments stop where the result no longer
# moves: exp(87.33) is below 2^126, up to which quotients are good, and tanh(10) is 1 - 4e-9. Nor does every
# driver compute NaN from NaN: SwiftShader's exp(NaN) is infinite. WGSL's tanh has an absolute error of 1e-5,
# and drivers compute it as a difference of powers of e. So small arguments go through the power series: what
# follows is 9e-10 of the result at most.
_TANH_SERIES = (
    "x * (T(1) - x * x * (T(0.33333334) - x * x * (T(0.13333334) - x * x * (T(0.053968254)"
    " - x * x * T(0.021869488)))))"
)

TABLE = (
    _between("relu", 0, None, (-100, 100)),
    _between("relu01", 0, 1, (-3, 3)),
    _between("relu1", -1, 1, (-3, 3)),
    _between("relu6", 0, 6, (-10, 10)),
    Unary(
        "logistic",
        gates.logistic,
        keep_nan("T(1) / (T(1) + exp(-clamp(x, T(-87.33), T(87.33))))", "x"),
        (-200, 200),
        fused=Fused(0.25, True, gates.write_logistic),
        output=(1 / 256, 0),
        table=logistic_table,
        table16=interpolation.logistic(gates.logistic),
        looped=True,
    ),
    Unary(
        "tanh",
        gates.tanh,
        keep_nan(f"select(tanh(clamp(x, T(-10), T(10))), {_TANH_SERIES}, abs(x) < T(0.25))", "x"),
        (-100, 100),
        fused=Fused(1.0, True, gates.write_tanh),
        output=(1 / 128, 128),
        table=tanh_table,
        table16=interpolation.tanh(gates.tanh),
    ),
    Unary(
        "silu",
        gates.silu,
        keep_nan(f"max(x, T({gates.LEAST})) / (T(1) + exp(-clamp(x, T({gates.LEAST}), T(87.33))))", "x"),
        (-200, 200),
        fused=Fused(1.1, True, gates.write_silu),
        looped=True,
    ),
    Unary(
        "hard_swish",
        gates.hard_swish,
        "select(x, T(-3), x < T(-3)) * (clamp(x + T(3), T(0), T(6)) / T(6))",
        (-10, 10),
        fused=Fused(1.5, write=gates.write_hard_swish),
        table=hard_swish_table,
        looped=True,
    ),
    Unary("sign_bit", _sign_bit, "select(T(0), T(1), x < T(0))", (-2, 2), fused=Fused()),
    Unary("floor", _leave(np.floor), "floor(x)", (-100, 100)),
    Unary(
        "leaky_relu",
        _leaky_relu,
        "select(x, p.alpha * x, x < T(0))",
        (-100, 100),
        table=_leaked,
        table16=_leaked,
        accuracy=BASIC,
        looped=True,
    ),
    Unary(
        "abs",
        _leave(np.abs),
        "abs(x)",
        (-100, 100),
        dtypes=_SHORT,
        int64="magnitude(x)",
        table=_magnitudes,
        table16=_magnitudes,
        accuracy=BASIC,
    ),
    Unary(
        "neg",
        _leave(np.negative),
        "-x",
        (-100, 100),
        dtypes=(*_SHORT, DType.INT8),
        int64="i64_negate(x)",
        signs=(-1,),
        accuracy=BASIC,
    ),
    Unary("sign", _leave(np.sign), "sign(x)", (-2, 2), nan=True, dtypes=_SIGNED, int64=_INT64_SIGN),
    Unary(
        "square",
        _leave(np.square),
        "x * x",
        (-1e4, 1e4),
        dtypes=_SIGNED,
        int64="i64_multiply(x, x)",
        accuracy=BASIC,
    ),
    Unary("zeros_like", _zeros, "T(0)", (-2, 2), dtypes=(*_SIGNED, DType.BOOL)),
    Unary("logical_not", _logical_not, "1 - x", (0, 1), dtypes=(DType.BOOL,)),
    Unary("ceil", _leave(np.ceil), "ceil(x)", (-100, 100)),
    Unary("round", _leave(np.rint), "round(x)", (-100, 100)),
    Unary(
        "exp",
        _leave(np.exp),
        "exponential(x)",
        (-100, 100),
        table16=interpolation.table(np.exp),
        library="elementary",
    ),
    Unary(
        "log",
        _leave(np.log),
        "logarithm(x)",
        (-1, 1e4),
        table=log_table,
        table16=interpolation.table(np.log, 0),
        library="elementary",
    ),
    _root("sqrt", _leave(np.sqrt), "root(x)", sqrt_table, sqrt_table),
    _root("rsqrt", _rsqrt, "inverse_root(x)", rsqrt_table, interpolation.table(_rsqrt, 1, single=_rsqrt)),
    Unary("sin", _leave(np.sin), "wave(x, 0u)", (-3e4, 3e4), library="elementary"),
    Unary("cos", _leave(np.cos), "wave(x, 1u)", (-3e4, 3e4), library="elementary"),
    Unary("elu", _elu, "select(exponential_less_one(x), x, x >= 0.0)", (-100, 100), library="elementary"),
    Unary(
        "gelu",
        gaussian.gelu,
        "gaussian_unit(x)",
        (-30, 30),
        table16=_GELU_TABLE16,
        library="elementary",
        looped=True,
    ),
    Unary(
        "gelu_tanh",
        gaussian.gelu_tanh,
        "tanh_unit(x)",
        (-30, 30),
        table16=_GELU_TANH_TABLE16,
        library="elementary",
        looped=True,
    ),
    Unary("sinh", _leave(np.sinh), "hyperbolic_sine(x)", (-90, 90), library="hyperbolic"),
    Unary("cosh", _leave(np.cosh), "hyperbolic_cosine(x)", (-90, 90), library="hyperbolic"),
    Unary("asinh", _leave(np.arcsinh), "inverse_sine(x)", (-1e5, 1e5), library="hyperbolic"),
    Unary("acosh", _leave(np.arccosh), "inverse_cosine(x)", (-1, 1e5), library="hyperbolic"),
    Unary("atanh", _leave(np.arctanh), "inverse_tangent(x)", (-1.5, 1.5), library="hyperbolic"),
    Unary("erf", gaussian.erf, "error_function(x)", (-6, 6), library="hyperbolic"),
    Unary(
        "fake_quant",
        fake_quant.fake_quant,
        keep_nan("(floor((clamp(x, T(p.low), T(p.high)) - p.low) / p.step + 0.5) - p.zero) * p.step", "x"),
        (-10, 10),
        params=fake_quant.params,
        accuracy=Accuracy(formula=fake_quant.error),
    ),
)

ACTIVATIONS = {line.name: line for line in TABLE if line.fused is not None}


def check_activation(call: Call) -> None:
    """Raise ModelError unless attribute `activation` is None or fits the dtype of the first input."""
    name = call.attrs.get("activation")
    if name is None:
        return
    if not isinstance(name, str) or name not in ACTIVATIONS:
        call.fail(f"activation must be one of {', '.join(sorted(ACTIVATIONS))}, got {name!r}")
    without = (DType.STRING, DType.BOOL, DType.COMPLEX64)
    integer = ACTIVATIONS[name].integer and call.x.dtype not in without
    if call.x.dtype not in FLOATS and not integer:
        call.fail(f"activation {name} needs a float tensor, got {call.x}")


def activation_function(call: Call) -> dict[str, Function]:
    """Return Kernel.functions for the call's fused activation: `apply`, or nothing (the identity)."""
    name = call.attrs.get("activation")
    return {} if name is None else {"apply": Function(("x",), ACTIVATIONS[name].expression_for(call.y.dtype))}


def apply_activation(y: Array, name: str | None) -> Array:
    """Apply the activation of that name to `y`, in the same dtype."""
    return y if name is None else np.asarray(ACTIVATIONS[name].meaning(y))


OPS: tuple[Op, ...] = tuple(declare(line) for line in TABLE)
