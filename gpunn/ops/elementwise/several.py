"""Element-wise functions of three and more tensors, written in those of two (see binary.py).

All operands have one dtype, and broadcast as numpy broadcasts. On quantised tensors each function of two
rounds and saturates as that op does (see binary_integer.py): what lies between two of them has the
quantisation of the first operand, the last one has the result's. Only products of quantised tensors go
through reals: between two products that quantisation would hold little of the range.

add_n, mul_n, maximum_n and minimum_n take any number of tensors, at least one, and join them from the first
to the last. Raises ModelError for mixed or wrong dtypes, and for shapes that do not broadcast. Accuracy: a
rounding for each tensor but the first. TFLite schema, ADD_N; NeuralNetwork.proto, AddLayerParams,
MultiplyLayerParams, MaxLayerParams, MinLayerParams.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial, reduce
from itertools import repeat

import numpy as np

from gpunn.ops.accuracy import SELECTION, Accuracy, sums
from gpunn.ops.call import Call, broadcast
from gpunn.ops.check import expect_dtype
from gpunn.ops.elementwise import binary
from gpunn.ops.elementwise.binary_declaration import Binary
from gpunn.ops.expansion import Expansion, Tensor
from gpunn.ops.fixed_point.affine import scale_of, through_reals
from gpunn.ops.fixed_point.single_ops import compute_op
from gpunn.ops.op import Op, Quantized, op
from gpunn.types import Array, Quantization, TensorType

_LINES = {line.name: line for line in binary.TABLE}
_PAIRS = {pair.name: pair for pair in binary.OPS}


def _infer(line: Binary, call: Call) -> TensorType:
    types = [expect_dtype(call, index, *line.dtypes) for index in range(len(call.inputs))]
    if len({t.quantization is None for t in types}) > 1:
        call.fail(f"all inputs must be quantised or none, got {', '.join(map(str, types))}")
    return broadcast(call)


def _joined(names: Iterable[str], call: Call, to: Expansion, *xs: Tensor) -> Tensor:
    """Write the op as functions of two tensors with these names, from the first operand to the last."""
    if len(xs) == 1:
        return to.add("reshape", xs[0], shape=call.x.shape)
    found = xs[0]
    for number, (name, other) in enumerate(zip(names, xs[1:], strict=False), start=1):
        found = to.add(name, found, other, quantization=_between(call, number))
    return found


def _between(call: Call, number: int) -> Quantization | None:
    """Return the quantisation of what the first operands, up to `number`, become."""
    return (call.y if number == len(call.inputs) - 1 else call.x).quantization


def _through_reals(names: Iterable[str], call: Call, to: Expansion, *xs: Tensor) -> Tensor:
    """Write the op on the real numbers that quantised tensors stand for."""
    reals = [to.add("dequantize", x) for x in xs]
    found = reduce(lambda a, b: to.add(b[0], a, b[1]), zip(names, reals[1:], strict=False), reals[0])
    scale, zero = scale_of(call, call.y)
    return to.add("quantize", found, dtype=call.y.dtype.value, scale=scale, zero_point=zero)


def _stored(names: Iterable[str], call: Call, *xs: Array) -> Array:
    """Return the stored result of those functions of quantised tensors."""
    found, type = xs[0], call.x
    if len(xs) == 1:
        return through_reals(call, lambda x: x, found)
    for number, (name, other) in enumerate(zip(names, xs[1:], strict=False), start=1):
        to = type.with_shape(np.broadcast_shapes(type.shape, call.input(number).shape))
        to = replace(to, quantization=_between(call, number))
        found, type = compute_op(_PAIRS[name], [(found, type), (other, call.input(number))], to)
    return found


def _others(call: Call) -> int:
    """Count the roundings of a result: one for each operand but the first."""
    return len(call.inputs) - 1


def _declare(name: str, pair: str, accuracy: Accuracy) -> Op:
    line = _LINES[pair]

    def meaning(*xs: Array) -> Array:
        found: Array = reduce(line.meaning, xs)
        return found

    names = repeat(pair)

    def expand(call: Call, to: Expansion, *xs: Tensor) -> Tensor:
        if pair == "mul" and call.x.quantization is not None:
            return _through_reals(names, call, to, *xs)
        return _joined(names, call, to, *xs)

    return op(
        partial(_infer, line),
        expand=expand,
        name=name,
        dtypes=line.dtypes,
        quantized=None if pair == "mul" else Quantized(partial(_stored, names), dtypes=line.dtypes),
        flops=lambda call: _others(call) * call.y.size,
        accuracy=accuracy,
    )(meaning)


def _infer_clamp(call: Call) -> TensorType:
    return _infer(_LINES["maximum"], call)


_CLAMP = ("maximum", "minimum")


@op(
    _infer_clamp,
    expand=partial(_joined, _CLAMP),
    dtypes=_LINES["maximum"].dtypes,
    quantized=Quantized(partial(_stored, _CLAMP), dtypes=_LINES["maximum"].dtypes),
    flops=lambda call: 2 * call.y.size,
    accuracy=SELECTION,
)
def clamp(x: Array, low: Array, high: Array) -> Array:
    """Raise the elements of x to `low`, and then lower them to `high`.

    All of one dtype, those of maximum; the shapes broadcast. Where low is above high the result is high; NaN
    in any of the three gives NaN. Raises ModelError for other dtypes and for shapes that do not broadcast.
    TFLite schema, STABLEHLO_CLAMP; NeuralNetwork.proto, ClipLayerParams.
    """
    pair = _LINES["maximum"].meaning(x, low)
    found: Array = _LINES["minimum"].meaning(pair, high)
    return found


OPS: tuple[Op, ...] = (
    _declare("add_n", "add", sums(_others)),
    _declare("mul_n", "mul", Accuracy(roundings=_others, arithmetic=True)),
    _declare("maximum_n", "maximum", SELECTION),
    _declare("minimum_n", "minimum", SELECTION),
    clamp,
)
