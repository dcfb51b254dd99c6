"""A depthwise convolution and the 1 x 1 convolution behind it in one kernel: separable_conv2d."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from itertools import chain
from typing import Any

import numpy as np

from gpunn.kernel import (
    Candidate,
    Function,
    Kernel,
    Pack,
    Param,
    Read,
    ceil_div,
    fits_i32,
    vec_width,
)
from gpunn.ops.accuracy import ATOL, EPS, GENERAL, Accuracy, Evaluation
from gpunn.ops.call import Call
from gpunn.ops.contraction.conv import conv2d, depthwise_conv2d
from gpunn.ops.contraction.filter_packing import channel_reads, pack_bias, pack_deep_filter
from gpunn.ops.contraction.separable_rows import FAST_SPLITS, WHOLE_ROWS, whole_rows
from gpunn.ops.contraction.shared_operands import Product, step_library, step_pitch
from gpunn.ops.contraction.workgroup_product import workgroup_tiles
from gpunn.ops.elementwise.unary import ACTIVATIONS, apply_activation
from gpunn.ops.fusion import Fusion
from gpunn.ops.kernels import window
from gpunn.ops.kernels.window import Padding, check_window, window_params
from gpunn.ops.op import Op, op
from gpunn.types import Array, TensorType

_WINDOW = ("stride", "dilation", "padding")  # attributes of the depthwise convolution
_FOUR = 4  # channels between the two that an invocation computes at once
_MOST_CELLS = 49  # of a window: they are written out
# Cells that an invocation loads before it adds them up, of two vec4s of channels: the code of more is long.
_CELLS_AT_ONCE = 9


def _depthwise(call: Call) -> Call:
    """Return the depthwise convolution of a call."""
    placed = {name: call[name] for name in _WINDOW}
    attrs = {**depthwise_conv2d.attributes, **placed, "activation": call["between"]}
    inputs = (call.x, call.input(1), call.inputs[3] if call.has(3) else None)
    return _with_result(replace(call, op=depthwise_conv2d.name, inputs=inputs, attrs=attrs), depthwise_conv2d)


def _pointwise(call: Call) -> Call:
    """Return the 1 x 1 convolution of a call."""
    attrs = {**conv2d.attributes, "activation": call.attrs.get("activation")}
    inputs = (_depthwise(call).y, call.input(2), call.inputs[4] if call.has(4) else None)
    return _with_result(replace(call, op=conv2d.name, inputs=inputs, attrs=attrs), conv2d)


def _with_result(call: Call, definition: Op) -> Call:
    result = definition.infer(call)
    assert isinstance(result, TensorType)
    return replace(call, outputs=(result,))


def _infer(call: Call) -> TensorType:
    depth, filter = call.expect_rank(0, 4).shape[3], call.expect_rank(2, 4)
    if _depthwise(call).y.shape[3] != depth or filter.shape[1:] != (1, 1, depth):
        call.fail(f"the filters must be of {depth} channels, the second of 1 x 1 pixels, got {filter}")
    return _pointwise(call).y


def _flops(call: Call) -> int:
    return depthwise_conv2d.count_flops(_depthwise(call)) + conv2d.count_flops(_pointwise(call))


def _errors(evaluation: Evaluation) -> tuple[Array, int]:
    """Return Accuracy.detour: what gpunn.ops.accuracy allows for both operations, in eps.

    For the first one that is n eps of the sizes of n terms, and the general promise. The second one
    multiplies it by the sizes of its weights.
    """
    call, values = evaluation.call, (*evaluation.inputs, None, None)[:5]
    x, taps, weights, taps_bias, bias = (None if v is None else np.abs(v) for v in values)
    placed = {name: call[name] for name in _WINDOW}
    sizes = depthwise_conv2d.reference(x, taps, taps_bias, **placed)
    pixels = depthwise_conv2d.reference(values[0], values[1], values[3], **placed)
    between = np.abs(apply_activation(pixels, call["between"]))
    fused = ACTIVATIONS[call["between"]].fused if call["between"] else None
    slope = 1.0 if fused is None else fused.slope
    terms = math.prod(call.input(1).shape[1:3]) + 1, call.x.shape[3] + 1
    off = slope * terms[0] * sizes + GENERAL * between + ATOL / EPS
    return conv2d.reference(off, weights) + terms[1] * conv2d.reference(between, weights, bias), 1


def _pack_taps(filter: Array) -> Array:
    """Pack [1, KH, KW, C] with zeros behind the channels, up to a multiple of 4."""
    return np.pad(filter, [(0, 0), (0, 0), (0, 0), (0, -filter.shape[3] % _FOUR)])


def _kernels(call: Call) -> Iterator[Candidate]:
    """Yield the ways of one kernel: first with whole rows, if it suits, then in tiles.

    All operands but x are constants.
    """
    first, second = _depthwise(call), _pointwise(call)
    size, depth = (call.input(1).shape[1], call.input(1).shape[2]), call.x.shape[3]
    if math.prod(size) > _MOST_CELLS or not fits_i32(call.x.size, first.y.size, call.y.size):
        return
    spatial = call.x.shape[1], call.x.shape[2]
    params: dict[str, Param] = {**window_params(check_window(first, spatial, size), *spatial)}
    w, bias = channel_reads(second, pack_deep_filter)
    product = Product(
        "separable_workgroup",
        depth,
        vec_width(depth),
        params if depth % _FOUR == 0 else {**params, "K": depth},
        (step_library(depth), "packed_columns"),
        (replace(w, operand=2), replace(bias, operand=4 if call.has(4) else None)),
        pitch=step_pitch(depth),
    )
    ways = chain(whole_rows(call, product), workgroup_tiles(call, product))
    for candidate in ways:
        kernels = [_with_windows(call, kernel) for kernel in candidate.kernels]
        yield replace(candidate, kernels=kernels, reason=f"both in one: {candidate.reason}")


def _with_windows(call: Call, product: Kernel) -> Kernel:
    """Return the kernel of a product that computes its rows by the depthwise convolution."""
    filter = call.input(1)
    _, height, width, depth = filter.shape
    nbytes = height * width * ceil_div(depth, _FOUR) * _FOUR * filter.dtype.numpy.itemsize
    taps = Read("taps", 1, 4, Pack(_pack_taps), nbytes=nbytes)
    bias = Read("taps_bias", 3, 4, Pack(pack_bias, (_FOUR,))) if call.has(3) else Read("taps_bias", None)
    name = call["between"]
    between = Function(("x",), "x" if name is None else ACTIVATIONS[name].expression_for(call.y.dtype))
    functions = {**product.functions, "between": between}
    whole = product.body == WHOLE_ROWS
    together = whole and height * width <= _CELLS_AT_ONCE
    constants = {**product.constants, "AT_ONCE": 1 + together} if whole else product.constants
    generated = f"{product.generated}\n{_window_sum(height, width, together)}"
    reason = f"{product.reason}, rows of depthwise windows of {height} x {width}"
    reads = (*product.reads, taps, bias)
    return replace(
        product, reads=reads, constants=constants, functions=functions, generated=generated, reason=reason
    )


@cache
def _window_sum(height: int, width: int, together: bool) -> str:
    """Write the sum over all cells of a window: what a row of it sees is loaded at once, or what all see."""
    lines = ["fn window_sum(row: Row, k: u32) -> vec4<T> {", "var sum = begin_sum(k);"]
    rows = [[(ky, kx) for kx in range(width)] for ky in range(height)]
    for cells in [list(chain(*rows))] if together else rows:
        lines += (f"let seen_{ky}_{kx} = seen_at(row, {ky}u, {kx}u, k);" for ky, kx in cells)
        lines += (f"sum = add_tap(sum, {ky * width + kx}u, seen_{ky}_{kx}, k);" for ky, kx in cells)
    return "\n".join((*lines, "return sum;", "}"))


@op(_infer, _kernels, flops=_flops, accuracy=Accuracy(detour=_errors, arithmetic=True), fusible=True)
def separable_conv2d(
    x: Array,
    depthwise: Array,
    pointwise: Array,
    depthwise_bias: Array | None = None,
    pointwise_bias: Array | None = None,
    *,
    stride: window.Pair = (1, 1),
    dilation: window.Pair = (1, 1),
    padding: Padding = "valid",
    between: str | None = None,
) -> Array:
    """Convolve every channel with a filter of its own, and the pixels of the result with filters of 1 x 1.

    x [N, H, W, C]; depthwise [1, KH, KW, C]; pointwise [O, 1, 1, C]; biases [C] and [O]; result [N, OH, OW,
    O]. stride, dilation, padding: of the first convolution, see conv2d; between: its activation.
    """
    pixels = depthwise_conv2d.reference(
        x, depthwise, depthwise_bias, stride=stride, dilation=dilation, padding=padding
    )
    result: Array = conv2d.reference(apply_activation(pixels, between), pointwise, pointwise_bias)
    return result


def _attrs(first: Call, second: Call) -> Mapping[str, Any] | None:
    """Return the attributes of separable_conv2d for two convolutions; None if it does not compute these."""
    depth, spatial = first.x.shape[3], (second.x.shape[1], second.x.shape[2])
    plain = second.input(1).shape[1:] == (1, 1, depth) and first.y.shape[3] == depth
    constants = all(call.constant[k] for call in (first, second) for k in (1, 2) if call.has(k))
    if not plain or not constants or not check_window(second, spatial, (1, 1)).pointwise:
        return None
    attrs = {name: first[name] for name in _WINDOW}
    return {**attrs, "between": first["activation"], "activation": second["activation"]}


def _leads(call: Call) -> bool:
    """Tell whether one kernel comes before two: windows are small, and it has whole rows, not too many."""
    if math.prod(call.input(1).shape[1:3]) > _CELLS_AT_ONCE:
        return False  # no GPU has measured these
    kernels = (kernel for way in _kernels(call) for kernel in way.kernels)
    return any(k.body == WHOLE_ROWS and k.constants["SPLITS"] >= FAST_SPLITS for k in kernels)


FUSION = Fusion(
    ops=(depthwise_conv2d, conv2d),
    whole=separable_conv2d,
    operands=((0, 0), (0, 1), (1, 1), (0, 2), (1, 2)),
    attrs=_attrs,
    leads=_leads,
)
