"""Element-wise functions of three and more tensors, written in those of two (see binary.py).

All operands have one dtype, and broadcast as numpy broadcasts. Quantised tensors stand for reals: the host
computes these, as a result between two functions would have to be rounded to integers. Where one quantisation
holds for all tensors, choosing among them rounds nothing.

add_n, mul_n, maximum_n and minimum_n take any number of tensors, at least one, and join them from the first
to the last. Raises ModelError for mixed or wrong dtypes, and for shapes that do not broadcast. Accuracy: a
rounding for each tensor but the first. TFLite schema, ADD_N; NeuralNetwork.proto, AddLayerParams,
MultiplyLayerParams, MaxLayerParams, MinLayerParams.
"""

from __future__ import annotations

from functools import partial, reduce

from gpunn.kernel import Unsupported
from gpunn.ops.accuracy import BASIC, Accuracy, sums
from gpunn.ops.call import Call, broadcast
from gpunn.ops.check import expect_dtype
from gpunn.ops.elementwise import binary
from gpunn.ops.elementwise.binary_declaration import Binary
from gpunn.ops.expansion import Expansion, Tensor
from gpunn.ops.op import Op, op
from gpunn.types import Array, TensorType

_HOST_REASON = "quantised tensors are joined as the real numbers that they stand for"
_LINES = {line.name: line for line in binary.TABLE}


def _infer(line: Binary, call: Call) -> TensorType:
    types = [expect_dtype(call, index, *line.dtypes) for index in range(len(call.inputs))]
    if len({t.quantization is None for t in types}) > 1:
        call.fail(f"all inputs must be quantised or none, got {', '.join(map(str, types))}")
    return broadcast(call)


def _expect_exact(call: Call, line: Binary) -> None:
    """Raise Unsupported if a result between two functions would have to be rounded."""
    quantizations = {t.quantization for t in (*call.inputs, *call.outputs) if t is not None}
    chosen = line.name in ("maximum", "minimum") and len(quantizations) == 1
    if call.x.quantization is not None and not chosen:
        raise Unsupported(_HOST_REASON)


def _expand(line: Binary, call: Call, to: Expansion, *xs: Tensor) -> Tensor:
    """Write the op as functions of two tensors, from the first operand to the last."""
    _expect_exact(call, line)
    if len(xs) == 1:
        return to.add("reshape", xs[0], shape=call.x.shape)
    return reduce(partial(to.add, line.name), xs)


def _others(call: Call) -> int:
    """Count the roundings of a result: one for each operand but the first."""
    return len(call.inputs) - 1


def _declare(name: str, pair: str, accuracy: Accuracy) -> Op:
    line = _LINES[pair]

    def meaning(*xs: Array) -> Array:
        found: Array = reduce(line.meaning, xs)
        return found

    return op(
        partial(_infer, line),
        expand=partial(_expand, line),
        name=name,
        host_reason=_HOST_REASON,
        dtypes=line.dtypes,
        flops=lambda call: _others(call) * call.y.size,
        accuracy=accuracy,
    )(meaning)


def _infer_clamp(call: Call) -> TensorType:
    return _infer(_LINES["maximum"], call)


def _expand_clamp(call: Call, to: Expansion, x: Tensor, low: Tensor, high: Tensor) -> Tensor:
    _expect_exact(call, _LINES["maximum"])
    return to.add("minimum", to.add("maximum", x, low), high)


@op(
    _infer_clamp,
    expand=_expand_clamp,
    host_reason=_HOST_REASON,
    dtypes=_LINES["maximum"].dtypes,
    flops=lambda call: 2 * call.y.size,
    accuracy=BASIC,
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
    _declare("maximum_n", "maximum", BASIC),
    _declare("minimum_n", "minimum", BASIC),
    clamp,
)
