"""Convolution over depth, height and width: conv3d."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from gpunn.kernel import (
    Candidate,
    Kernel,
    Pack,
    Param,
    Read,
    Scratch,
    Unsupported,
    Write,
    ceil_div,
    fits_i32,
    flat_threads,
    vec_width,
)
from gpunn.ops.accuracy import sums
from gpunn.ops.call import Call
from gpunn.ops.check import FLOATS, expect_int, expect_ints, expect_unquantised
from gpunn.ops.contraction import gradients
from gpunn.ops.contraction.conv_tile import tile_kernel
from gpunn.ops.contraction.filter_packing import pack_bias
from gpunn.ops.contraction.prepared import constants_only
from gpunn.ops.elementwise.unary import activation_function
from gpunn.ops.expansion import Expansion, Tensor
from gpunn.ops.kernels.chain import boxes, real_sums
from gpunn.ops.kernels.copies import strided_copy
from gpunn.ops.kernels.tiling import COLUMNS
from gpunn.ops.kernels.window import MAX_PADDED, MOST, along
from gpunn.ops.op import Op, op
from gpunn.ops.parts import by_batch
from gpunn.types import Array, DType, TensorType

Triple = tuple[int, int, int]
Span = tuple[int, int, int]  # padding before, padding after, output length

_MOST_PLANES = 16  # of a window: each is an operation of its own
_MOST_SEEN = 128 << 20  # bytes of what windows see, side by side: as many as every device binds


def _spans(
    spatial: tuple[int, ...], size: tuple[int, ...], stride: Triple, dilation: Triple, padding: str
) -> list[Span]:
    """Return the window's place along each axis."""
    return [along(n, k, s, d, padding) for n, k, s, d in zip(spatial, size, stride, dilation, strict=True)]


def _window(call: Call) -> list[Span]:
    """Return the window of a call; raise ModelError for invalid attributes and for a window that is too
    large.
    """
    for name in ("stride", "dilation"):
        numbers = expect_ints(call, name, 3)
        if min(numbers) < 1:
            call.fail(f"{name} must be at least 1, got {call[name]}")
        if max(numbers) > MOST:
            call.fail(f"{name} must be at most {MOST}, got {call[name]}")
    if call["padding"] not in ("same", "valid"):
        call.fail(f"padding must be 'same' or 'valid', got {call['padding']!r}")
    spatial, size = call.x.shape[1:4], call.input(1).shape[:3]
    spans = _spans(spatial, size, call["stride"], call["dilation"], call["padding"])
    if min(size) < 1 or (min(out for _, _, out in spans) < 1 and min(spatial) > 0):
        call.fail(f"a window of {size} with dilation {call['dilation']} does not fit an input of {spatial}")
    times, least = MAX_PADDED
    padded = math.prod(n + span[0] + span[1] for n, span in zip(spatial, spans, strict=True))
    if padded > max(times * math.prod(spatial), least):
        what = f"a window of {size} with dilation {call['dilation']}"
        call.fail(f"{what} is too wide for an input of {spatial}")
    return spans


def expect_groups(call: Call) -> int:
    """Return attribute groups. Raises ModelError unless it is 1 or more."""
    groups = expect_int(call, "groups", call["groups"])
    if groups < 1:
        call.fail(f"groups must be at least 1, got {groups}")
    return groups


def _each(groups: int) -> str:
    return f" for each of {groups} groups" if groups > 1 else ""


def _infer(call: Call) -> TensorType:
    x, filter = call.expect_rank(0, 5), call.expect_rank(1, 5)
    for index in range(2 + call.has(2)):
        expect_unquantised(call, index, *FLOATS)
    depth, channels = filter.shape[3:]
    groups = expect_groups(call)
    if x.shape[4] != depth * groups:
        call.fail(f"filter has {depth} input channels{_each(groups)}, input has {x.shape[4]}")
    if channels % groups:
        call.fail(f"{channels} channels cannot be divided into {groups} groups")
    if call.has(2) and call.input(2).shape != (channels,):
        call.fail(f"bias must have shape [{channels}], got {list(call.input(2).shape)}")
    return x.with_shape((x.shape[0], *(out for _, _, out in _window(call)), channels))


def _filled(numbers: tuple[int, ...]) -> tuple[int, int, int, int]:
    """Add a zero to three numbers, as parameters need them."""
    depth, height, width = numbers
    return depth, height, width, 0


def _params(call: Call) -> dict[str, Param]:
    """Return the parameters that say where the window lies (shaders/lib/volume.wgsl)."""
    return {
        "input": _filled(call.x.shape[1:4]),
        "result": _filled(call.y.shape[1:4]),
        "stride": _filled(call["stride"]),
        "dilation": _filled(call["dilation"]),
        "before": _filled(tuple(before for before, _, _ in _window(call))),
    }


def _kernels(call: Call) -> Iterator[Candidate]:
    if not fits_i32(call.x.size, call.y.size):
        raise Unsupported("more elements than the shaders can count")
    depth, height, width, channels = call.input(1).shape[:4]
    rows = depth * height
    if call["groups"] == 1:
        constant = constants_only(call)
        copies, reads = ([], _packed(call)) if constant else _padded(call)
        kernel = tile_kernel(call, (rows, width), _params(call), reads, "volume", {"KROWS": height})
        reason = "tiles of cells and channels" + ("" if constant else "; the filter is not a constant")
        yield Candidate([*copies, kernel], reason)
    reason = "one output cell an invocation"
    parts = boxes((rows, width, channels), call.device.max_loop_iterations)
    yield Candidate(real_sums(call, _cell_kernel(call, reason), parts), reason, fallback=True)


def _packed(call: Call) -> tuple[Read, Read]:
    """Return the filter and the bias, constants, with channels padded for tiles."""
    channels = call.y.shape[4]
    filter = call.input(1)
    nbytes = filter.nbytes // max(channels, 1) * ceil_div(channels, COLUMNS) * COLUMNS
    bias = Read("bias", 2, 4, Pack(pack_bias)) if call.has(2) else Read("bias", None)
    return Read("w", 1, 4, Pack(_pack_filter), nbytes=nbytes), bias


def _pack_filter(filter: Array) -> Array:
    """Pad the channels of the result to a multiple of COLUMNS."""
    return np.pad(filter, [*[(0, 0)] * 4, (0, -filter.shape[4] % COLUMNS)])


def _padded(call: Call) -> tuple[list[Kernel], tuple[Read, Read]]:
    """Return kernels that pad the channels of filter and bias for tiles, and what these read.

    What lies in the padding does not matter: sums of these channels are not stored.
    """
    copies: list[Kernel] = []
    reads: list[Read] = []
    for name, operand in (("w", 1), ("bias", 2)):
        if not call.has(operand) or call.input(operand).shape[-1] % COLUMNS == 0:
            reads.append(Read(name, operand if call.has(operand) else None, 4))
            continue
        *outer, channels = call.input(operand).shape
        rows, padded = math.prod(outer), ceil_div(channels, COLUMNS) * COLUMNS
        to = Scratch(TensorType(DType.FLOAT32, (rows, padded)))
        copy = strided_copy(
            Read("x", operand),
            (rows, channels),
            (channels, 1),
            (padded, 1),
            reason="channels padded for tiles",
        )
        copies.append(replace(copy, writes=(Write(output=to, width=copy.lanes),)))
        reads.append(Read(name, to, 4))
    filter, bias = reads
    return copies, (filter, bias)


def _cell_kernel(call: Call, reason: str) -> Kernel:
    """Make the kernel for any filter, which real_sums() completes for parts of a sum."""
    lanes = vec_width(call.y.shape[4] // call["groups"])
    count = call.y.size // lanes
    return Kernel(
        body="conv3d",
        threads=flat_threads(count),
        reads=(
            Read("x", 0),
            Read("w", 1, width=lanes),
            Read("bias", 2 if call.has(2) else None, width=lanes),
        ),
        writes=(Write(width=lanes),),
        params={
            "count": count,
            "N": call.y.shape[4] // lanes,
            "C": call.input(1).shape[3],
            "group": call.y.shape[4] // call["groups"] // lanes,
            "channels": call.x.shape[4],
            "KW": call.input(1).shape[2],
            **_params(call),
        },
        constants={"KROWS": call.input(1).shape[1]},
        functions=activation_function(call),
        libraries=("real", "chain"),
        lanes=lanes,
        reason=f"one output cell x {lanes} channels: {reason}",
    )


def by_group(x: Array, matrix: Array, groups: int) -> Array:
    """Multiply channels [..., I] with a matrix [I / groups, O], each group with its own columns."""
    if groups == 1:
        return np.asarray(x @ matrix)
    parts = zip(np.split(x, groups, axis=-1), np.split(matrix, groups, axis=1), strict=True)
    return np.concatenate([part @ columns for part, columns in parts], axis=-1)


def _expand(call: Call, to: Expansion, x: Tensor, filter: Tensor, bias: Tensor | None = None) -> Tensor:
    """Convolve over height and width alone: the planes that a window sees become channels of one plane.

    Windows of three dimensions have fewer ways to be computed, and none with fewer multiplications.
    """
    batch, _, height, width, channels = call.x.shape
    planes, down, across, _, outputs = filter.type.shape
    (before, after, depth), *beside = _window(call)
    seen = batch * depth * height * width * planes * channels
    if filter.value is None or call["groups"] > 1 or not call.y.size or not seen:
        raise Unsupported("the filter is computed, there are groups, or the result is empty")
    if planes > 1 and down == across == 1 and call["stride"][1:] == (1, 1):
        return _over_depth(call, to, x, filter.value, bias)
    if planes > _MOST_PLANES or seen * call.x.dtype.numpy.itemsize > _MOST_SEEN:
        raise Unsupported("the planes that windows see are too many, or too large side by side")
    if before or after:
        x = to.add("pad", x, paddings=((0, 0), (before, after), *[(0, 0)] * 3))
    stride, dilation = call["stride"], call["dilation"]
    parts = [_plane_of_each(to, x, k * dilation[0], stride[0], depth) for k in range(planes)]
    whole = parts[0] if planes == 1 else to.add("concat", *parts, axis=4)
    images = to.add("reshape", whole, shape=(batch * depth, height, width, planes * channels))
    weights = filter.value.transpose(4, 1, 2, 0, 3).reshape(outputs, down, across, planes * channels)
    attrs = {"stride": stride[1:], "dilation": dilation[1:], "padding": tuple(span[:2] for span in beside)}
    activation = call.attrs.get("activation")
    sums = to.add(
        "conv2d", images, to.constant(np.ascontiguousarray(weights)), bias, **attrs, activation=activation
    )
    return to.add("reshape", sums, shape=call.y.shape)


def _over_depth(call: Call, to: Expansion, x: Tensor, filter: Array, bias: Tensor | None) -> Tensor:
    """Convolve over depth alone: rows of the images are depths, columns all pixels of a plane."""
    batch, depth, height, width, channels = call.x.shape
    images = to.add("reshape", x, shape=(batch, depth, height * width, channels))
    weights = np.ascontiguousarray(filter[:, 0].transpose(3, 0, 1, 2))
    (before, after, _), *_ = _window(call)
    sums = to.add(
        "conv2d",
        images,
        to.constant(weights),
        bias,
        stride=(call["stride"][0], 1),
        dilation=(call["dilation"][0], 1),
        padding=((before, after), (0, 0)),
        activation=call.attrs.get("activation"),
    )
    return to.add("reshape", sums, shape=call.y.shape)


def _plane_of_each(to: Expansion, x: Tensor, first: int, step: int, count: int) -> Tensor:
    """Return the planes of x [N, D, H, W, C] that one plane of a window sees: every so many from one on."""
    begin, end = (None, first, *[None] * 3), (None, first + (count - 1) * step + 1, *[None] * 3)
    return to.add("strided_slice", x, begin=begin, end=end, strides=(1, step, 1, 1, 1))


def _terms(call: Call) -> int:
    """Count the products in one sum, and the bias."""
    return math.prod(call.input(1).shape[:4]) + 1


@op(
    _infer,
    _kernels,
    expand=_expand,
    accuracy=sums(_terms),
    flops=lambda call: 2 * call.y.size * math.prod(call.input(1).shape[:4]),
    unbounded=True,
    divide=by_batch,
    fusible=True,
    gradient=gradients.CONV3D,
)
def conv3d(
    x: Array,
    filter: Array,
    bias: Array | None = None,
    *,
    stride: Triple = (1, 1, 1),
    padding: str = "valid",
    dilation: Triple = (1, 1, 1),
    groups: int = 1,
) -> Array:
    """Convolve over depth, height and width; attributes have this order.

    x [N, D, H, W, I]; filter [KD, KH, KW, I / groups, O]; bias [O]; result [N, OD, OH, OW, O]. Both channels
    are divided into `groups` equal parts; those of the result see only their own of x. padding: "same" or
    "valid". dtype: float32 or float16. Accuracy as of conv2d. Raises ModelError for other dtypes, channels
    that do not fit, and windows that do not fit the input. TFLite schema, Conv3DOptions; NeuralNetwork.proto
    of Core ML, Convolution3DLayerParams.
    """
    size, channels = filter.shape[:3], filter.shape[4]
    spans = _spans(x.shape[1:4], size, stride, dilation, padding)
    padded = np.pad(x, [(0, 0), *((before, after) for before, after, _ in spans), (0, 0)])
    out = tuple(length for _, _, length in spans)
    result = np.zeros((x.shape[0], *out, channels), x.dtype)
    for cell in itertools.product(*map(range, size)):
        starts = [k * d for k, d in zip(cell, dilation, strict=True)]
        steps = zip(starts, out, stride, strict=True)
        seen = tuple(slice(a, a + (n - 1) * s + 1, s) for a, n, s in steps)
        result += by_group(padded[(slice(None), *seen)], filter[cell], groups)
    return result if bias is None else result + bias


OPS: tuple[Op, ...] = (conv3d,)
