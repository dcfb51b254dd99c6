"""Normalisations: softmax and its logarithm, L2 normalisation, local response normalisation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

import numpy as np

from gpunn.kernel import (
    Function,
    Kernel,
    Kernels,
    Param,
    Read,
    Unsupported,
    Write,
    flat_threads,
    keep_nan,
    size_of,
    vec_width,
)
from gpunn.ops.accuracy import EPS, Accuracy, Evaluation, row_length
from gpunn.ops.algebra import Algebra
from gpunn.ops.axes import ALONG_AXIS
from gpunn.ops.call import Call
from gpunn.ops.check import FLOATS, QUANTIZED, expect_dtype, expect_float, expect_int
from gpunn.ops.fixed_point.affine import fixed_output, through_reals
from gpunn.ops.kernels.chain import boxes, chained, keeping
from gpunn.ops.normalization import gradients, l2_integer, log_softmax_integer, softmax_int16, softmax_integer
from gpunn.ops.normalization.host_rows import prepare_l2, prepare_log_softmax, prepare_softmax
from gpunn.ops.normalization.long_rows import long_rows, row_kernels
from gpunn.ops.normalization.rows import IntegerRows
from gpunn.ops.op import EIGHT_BITS, Op, Quantized, op
from gpunn.types import Array, DType, TensorType

_PARAMETERS = {
    "lowest": (),
    "measure": ("x",),
    "relative": ("x", "top"),
    "term": ("r",),
    "settle": ("sum",),
    "finish": ("r", "sum", "settled"),
}


def _row_kernels(
    call: Call,
    functions: Mapping[str, str],
    libraries: tuple[str, ...] = (),
    tables: tuple[Read, ...] = (),
    wide: bool = False,
    **params: Param,
) -> Kernels:
    """Return the ways to compute an op on rows along attribute `axis`.

    `functions`: see shaders/normalize.wgsl. `libraries`, `tables`: what the functions need. `wide`: sums have
    64 bits.
    """
    functions = {"lowest": "T(-3.4028234e38)", "settle": "sum", **functions}
    axis = call.axis(call["axis"], call.x.rank)
    length = call.x.shape[axis]
    return row_kernels(
        call,
        "normalize",
        (length, size_of(call.x.shape[axis + 1 :])),
        lambda kernel, group: long_rows(call, kernel, group, length, wide),
        *tables,
        params=params,
        functions={name: Function(_PARAMETERS[name], text) for name, text in functions.items()},
        libraries=libraries,
        at_once=not wide,
    )


def _as_integers(eight: IntegerRows, sixteen: tuple[IntegerRows, ...] = ()) -> Quantized:
    """Make the facet of an op on rows of 8 bits, and of 16; calls outside its arithmetic use real numbers.

    sixteen: for rows whose sums do not have 64 bits, and for longer ones.
    """

    def of(call: Call) -> IntegerRows:
        if not sixteen or call.x.dtype is not DType.INT16:
            return eight
        return sixteen[sixteen[0].wide(call)]

    def prepare(call: Call) -> Callable[[Array], Array]:
        how = of(call)
        if how.why_not(call):
            return partial(through_reals, call, next(o.reference for o in OPS if o.name == call.op))
        return partial(how.reference, call) if how.prepare is None else how.prepare(call)

    def kernel(call: Call) -> Kernels:
        how = of(call)
        reason = how.why_not(call)
        if reason:
            raise Unsupported(reason)
        tables = () if how.table is None else (Read("table", None, value=how.table(call)),)
        return _row_kernels(
            call, how.functions(call), how.needed(call), tables, how.wide(call), **how.params(call)
        )

    return Quantized.prepared(prepare, kernel, dtypes=QUANTIZED if sixteen else EIGHT_BITS)


def _infer(call: Call) -> TensorType:
    x = expect_dtype(call, 0, *FLOATS)
    call.axis(expect_int(call, "axis", call["axis"]), x.rank)
    return x


def _infer_softmax(call: Call) -> TensorType:
    x = _infer(call)
    beta = expect_float(call, "beta")
    if not 0 < beta < float("inf"):
        call.fail(f"beta must be a positive number, got {beta}")
    return x if x.quantization is None else fixed_output(x, 1 / 256, 0)


# exp(-100) is 4e-44: nothing beside the maximum, which gives 1. Only a row of -inf sums up to less.
_SOFTMAX = {
    "measure": "x",
    "relative": "p.beta * (x - top)",
    "term": keep_nan("exp(max(r, -100.0))", "r"),
    "finish": "select(term(r) / sum, T(undefined()), sum < 0.5)",
}


@op(
    _infer_softmax,
    lambda call: _row_kernels(call, _SOFTMAX, ("nan",), beta=float(call["beta"])),
    dtypes=(DType.FLOAT16,),
    quantized=_as_integers(softmax_integer.INTEGER, (softmax_int16.INTEGER, softmax_int16.LONG)),
    precise=True,
    algebra=Algebra(axes=ALONG_AXIS, distribution=True),
    accuracy=Accuracy(roundings=row_length),
    prepare=prepare_softmax,
    gradient=gradients.SOFTMAX,
)
def softmax(x: Array, *, axis: int = -1, beta: float = 1.0) -> Array:
    """Compute exp(beta (x - max)) / sum(exp(beta (x - max))), with maximum and sum along `axis`.

    Shapes: any of rank 1 or more; the result has x's shape. dtype: float32, float16, or quantised uint8, int8
    or int16; the result then has 256 or 2^15 steps from 0 to 1 (softmax_integer.py, softmax_int16.py). If a
    row contains NaN or +inf, or only -inf, the whole row is NaN. Raises ModelError for other dtypes, for an
    axis out of range, and unless 0 < beta. Accuracy: the general promise (atol 1e-5, rtol 5 eps of float32).
    NeuralNetworks.h, ANEURALNETWORKS_SOFTMAX (last axis of ranks 2 and 4 there); TFLite schema,
    SoftmaxOptions.
    """
    if not x.size:
        return x
    shifted = np.exp(x.dtype.type(beta) * (x - np.max(x, axis=axis, keepdims=True)))
    return np.asarray(shifted / np.sum(shifted, axis=axis, keepdims=True))


def _infer_log_softmax(call: Call) -> TensorType:
    x = _infer(call)
    return x if x.quantization is None else fixed_output(x, 16 / 256, 255)


# Where the sum is below 1, each r is a negative infinity, too: the difference of two is NaN.
_LOG_SUM = keep_nan("select(log(sum), r, sum < 0.5)", "sum")
_LOG_SOFTMAX = {**_SOFTMAX, "relative": "x - top", "finish": f"r - {_LOG_SUM}"}


def _log_softmax_error(evaluation: Evaluation) -> Array:
    """Return the logarithm of a sum of n terms, which is off by n eps relative to itself."""
    return np.asarray(row_length(evaluation.call) * EPS)


def _prepare_log_softmax(call: Call) -> Callable[[Array], Array] | None:
    return prepare_log_softmax(log_softmax.reference, call)


@op(
    _infer_log_softmax,
    lambda call: _row_kernels(call, _LOG_SOFTMAX),
    quantized=_as_integers(log_softmax_integer.INTEGER),
    precise=True,
    algebra=Algebra(axes=ALONG_AXIS),
    accuracy=Accuracy(formula=_log_softmax_error),
    prepare=_prepare_log_softmax,
    gradient=gradients.LOG_SOFTMAX,
)
def log_softmax(x: Array, *, axis: int = -1) -> Array:
    """Compute x - max - log(sum(exp(x - max))), the logarithm of softmax, with maximum and sum along `axis`.

    Shapes: any of rank 1 or more; the result has x's shape. dtype: float32, float16, or quantised uint8 or
    int8; the result then has 256 steps from -16 to 0 (log_softmax_integer.py). If a row contains NaN or +inf,
    or only -inf, the whole row is NaN. Raises ModelError for other dtypes and for an axis out of range.
    Accuracy: the general promise (atol 1e-5, rtol 5 eps of float32). TFLite schema, LogSoftmaxOptions.
    """
    if not x.size:
        return x
    shifted = x - np.max(x, axis=axis, keepdims=True)
    total = np.sum(np.exp(shifted), axis=axis, keepdims=True)
    return np.asarray(shifted - np.log(total))


# Elements are divided by the row's largest magnitude, so squares neither overflow nor vanish. The smallest
# normal number takes the place of a largest magnitude of 0.
_L2 = {
    "measure": "max(abs(x), 1.1754944e-38)",
    "relative": "nearer(x, top) / nearer(top, top)",
    "term": "r * r",
    "finish": "r / sqrt(select(sum, T(1), sum == T(0)))",
}


def _prepare_l2(call: Call) -> Callable[[Array], Array] | None:
    return prepare_l2(l2_normalization.reference, call)


@op(
    _infer,
    lambda call: _row_kernels(call, _L2, ("nearer",)),
    quantized=_as_integers(l2_integer.INTEGER),
    precise=True,
    algebra=Algebra(axes=ALONG_AXIS),
    accuracy=Accuracy(roundings=row_length),
    prepare=_prepare_l2,
    gradient=gradients.L2,
)
def l2_normalization(x: Array, *, axis: int = -1) -> Array:
    """Compute x / sqrt(sum(x^2)), with the sum along `axis`; a vector of zeros stays zeros.

    Shapes: any of rank 1 or more; the result has x's shape. dtype: float32, float16, or quantised uint8 or
    int8, in integers if the result has steps of 1/128 (l2_integer.py). Numbers of any magnitude are
    normalised; subnormal numbers may count as 0. If a row contains NaN or an infinity, the whole row is NaN.
    Raises ModelError for other dtypes and for an axis out of range. Accuracy: the general promise (atol 1e-5,
    rtol 5 eps of float32). NeuralNetworks.h, ANEURALNETWORKS_L2_NORMALIZATION (last axis of rank 4 there; it
    does not define the result for a vector of zeros); TFLite schema, L2NormOptions.
    """
    if not x.size:
        return x
    wide = x.astype(np.result_type(x, np.float32))
    top = np.max(np.abs(wide), axis=axis, keepdims=True)
    relative = wide / np.where(top == 0, wide.dtype.type(1), top)
    total = np.sum(np.square(relative), axis=axis, keepdims=True)
    return np.asarray(relative / np.sqrt(np.where(total == 0, wide.dtype.type(1), total)), x.dtype)


def _infer_local_response(call: Call) -> TensorType:
    x = _infer(call)
    radius = expect_int(call, "radius", call["radius"])
    if not 0 <= radius < 2**31:
        call.fail(f"radius must be >= 0 and fit 32 bits, got {radius}")
    numbers = {attr: expect_float(call, attr) for attr in ("bias", "alpha", "beta")}
    if not np.isfinite(list(numbers.values())).all():
        call.fail(f"bias, alpha and beta must be finite, got {list(numbers.values())}")
    return x


def _local_response_kernels(call: Call) -> list[Kernel]:
    shape, beta = call.x.shape, float(call["beta"])
    axis = call.axis(call["axis"], len(shape))
    inner = size_of(shape[axis + 1 :])
    radius, most = min(call["radius"], shape[axis]), call.device.max_loop_iterations
    beside = inner == 1 and shape[axis] % 4 == 0 and (most is None or 2 * radius < most)
    lanes = vec_width(shape[axis] if beside else inner)
    kernel = Kernel(
        body="local_response",
        threads=flat_threads(call.x.size // lanes),
        reads=(Read("x", 0, width=lanes),),
        writes=(Write(width=lanes),),
        params={
            "count": call.x.size // lanes,
            "length": shape[axis],
            "inner": max(inner // lanes, 1),
            "radius": radius,
            "bias": float(call["bias"]),
            "alpha": float(call["alpha"]),
            "beta": beta,
            "below": (-1.0) ** beta if beta.is_integer() else float("nan"),
        },
        functions={"finish": Function(("x", "sum"), "normalised(x, sum)")},
        lanes=lanes,
        reason="element by element",
    )
    if beside:
        return [replace(kernel, body="local_response_fours", loop_iterations=2 * radius + 1)]
    neighbours = boxes((min(2 * radius + 1, shape[axis]),), most)
    sums, as_summed = TensorType(DType.FLOAT32, call.y.shape), Function(("x", "sum"), "sum")
    return chained(kernel, keeping(kernel, {"y": sums}, {"finish": as_summed}), neighbours)


def _local_response_error(evaluation: Evaluation) -> Array:
    """Return x base^-beta, the base a sum of 2 radius + 1 squares."""
    beta, y = evaluation.call["beta"], evaluation.results[0]
    base = np.abs(evaluation.input(0) / y) ** (1 / beta) if beta else np.ones(())
    steps = 3 + beta * (2 * evaluation.call["radius"] + 3 + 5 * np.abs(np.log2(base)))
    return np.asarray(steps * EPS * np.abs(y))


@op(
    _infer_local_response,
    _local_response_kernels,
    precise=True,
    unbounded=True,
    algebra=Algebra(axes=ALONG_AXIS),
    accuracy=Accuracy(formula=_local_response_error),
    gradient=gradients.LOCAL_RESPONSE,
)
def local_response_normalization(
    x: Array, *, radius: int, bias: float, alpha: float, beta: float, axis: int = -1
) -> Array:
    """Compute x / (bias + alpha sum(x^2))^beta, with the sum over d - radius ... d + radius along `axis`.

    Neighbours outside of x do not count, and alpha is not divided by their number. Shapes: any of rank 1 or
    more; the result has x's shape. dtype: float32 or float16, with squares and sums inside float32's range.
    With bias 0 the result is defined where the sum is positive. Raises ModelError for other dtypes, an axis
    out of range, radius < 0, and numbers that are not finite. Accuracy: atol 1e-5, and rtol 3 + beta (n + 2 +
    5 |log2(base)|) eps of float32 for n neighbours: on a GPU a power is 2^(beta log2(base)), whose error
    grows with the exponent. NeuralNetworks.h, ANEURALNETWORKS_LOCAL_RESPONSE_NORMALIZATION (last axis of
    rank 4 there, and no bias 0); TFLite schema, LocalResponseNormalizationOptions.
    """
    length = x.shape[axis]
    reach = min(radius, length)
    around = [(reach, reach) if d == axis % x.ndim else (0, 0) for d in range(x.ndim)]
    wide = x.astype(np.result_type(x, np.float32))
    squares = np.pad(np.square(wide), around)
    windows = (np.take(squares, range(k, k + length), axis=axis) for k in range(2 * reach + 1))
    total = sum(windows, np.zeros_like(wide))
    number = wide.dtype.type
    return np.asarray(wide / np.power(number(bias) + number(alpha) * total, number(beta)), x.dtype)


OPS: tuple[Op, ...] = (softmax, log_softmax, l2_normalization, local_response_normalization)
