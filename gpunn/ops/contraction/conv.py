"""Convolutions: conv2d (with groups) and depthwise_conv2d (with multiplier)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np

from gpunn.kernel import Candidate, Kernel, Read, Unsupported, fits_i32
from gpunn.ops.accuracy import Accuracy, filter_terms, sums
from gpunn.ops.algebra import Algebra, Border
from gpunn.ops.call import Call
from gpunn.ops.check import expect_bool
from gpunn.ops.contraction import depthwise_kernel, gradients
from gpunn.ops.contraction.between_channels import as_dense, as_depthwise
from gpunn.ops.contraction.blocks import Sums, Terms
from gpunn.ops.contraction.broadcast_tile import (
    OF_PRODUCTS,
    OF_WINDOWS,
    completed,
    shared_rows,
    with_shared_rows,
)
from gpunn.ops.contraction.cells import with_cells
from gpunn.ops.contraction.computed_filter import block_packed, packed_reads
from gpunn.ops.contraction.conv_sums import (
    pieces_by_channel,
    pieces_of,
    real,
    rows_of,
    sums_by_channel,
    sums_of,
)
from gpunn.ops.contraction.conv_tile import tile_kernel
from gpunn.ops.contraction.depthwise_loop import depthwise_pieces
from gpunn.ops.contraction.filter_packing import STEP, channel_reads, group_reads
from gpunn.ops.contraction.half_products import filter_errors
from gpunn.ops.contraction.integer_product import MakeProduct, check_types, integer_product, quantized_product
from gpunn.ops.contraction.prepared import bound, constants_only, integer_matrix, prepared
from gpunn.ops.contraction.product_kernel import one_by_one, product_kernels
from gpunn.ops.contraction.product_loop import product_pieces
from gpunn.ops.contraction.product_rescaling import Rounding, eights
from gpunn.ops.contraction.register_product import products
from gpunn.ops.contraction.shared_operands import Product, matrix_product, window_product
from gpunn.ops.contraction.strided_pixels import of_pixels, pixel_product, sees_pixels
from gpunn.ops.contraction.unfolded import with_unfolded
from gpunn.ops.contraction.winograd import sums_of_sizes, with_winograd
from gpunn.ops.contraction.word_products import Form
from gpunn.ops.contraction.workgroup_product import with_workgroup_tiles
from gpunn.ops.filter import Filter, by_groups
from gpunn.ops.kernels.chain import real_sums
from gpunn.ops.kernels.register_tile import NARROW_TILE, SMALL_TILE, TILE, RegisterTile, other_tiles
from gpunn.ops.kernels.tiling import ROWS, leaves_idle
from gpunn.ops.kernels.window import Padding, Pair, Window, by_rows, check_window, resolve, window_params
from gpunn.ops.op import Op, op
from gpunn.types import Array, DType, Shape, TensorType


def _window(call: Call) -> Window:
    _, height, width, _ = call.x.shape
    _, kernel_height, kernel_width, _ = call.input(1).shape
    return check_window(call, (height, width), (kernel_height, kernel_width))


def _check_bias(call: Call, channels: int) -> None:
    if call.has(2) and call.input(2).shape != (channels,):
        call.fail(f"bias must have shape [{channels}], got {list(call.input(2).shape)}")


def _infer_conv2d(call: Call) -> TensorType:
    x, filter = call.expect_rank(0, 4), call.expect_rank(1, 4)
    channels, depth = filter.shape[0], filter.shape[3]
    if depth == 0 or x.shape[3] % depth:
        call.fail(f"filter has {depth} input channels, input has {x.shape[3]}")
    groups = x.shape[3] // depth
    if groups == 0 or channels % groups:
        call.fail(f"{channels} output channels cannot be divided into {groups} groups")
    _check_bias(call, channels)
    check_types(call, 0)
    return x.with_shape((x.shape[0], *_window(call).out, channels))


def _conv2d_kernels(call: Call) -> Iterator[Candidate]:
    if not fits_i32(call.x.size, call.y.size):
        raise Unsupported("more elements than the shaders can count")
    form = _form(call)
    if form.groups > 1:
        yield from _of_groups(call, form)
        reason = f"{form.groups} groups"
    elif not constants_only(call):
        yield from _of_computed_filter(call, form)
        reason = "the filter is not a constant"
    else:
        depth = form.depth * math.prod(form.window.size)
        gain = OF_PRODUCTS if form.window.pointwise else OF_WINDOWS
        shared = partial(shared_rows, call, form.window, form.depth)
        others, alike = _in_tiles(call, form), form.window.pointwise
        direct = with_shared_rows(call, depth, lambda: [shared()], others, gain=gain, alike=alike)
        rows = with_unfolded(call, form.window, lambda sums, _: completed(call, sums), direct)
        tiles = with_workgroup_tiles(call, _product(call, form), rows)
        ways = with_winograd(call, form.window, tiles)
        yield from with_cells(call, form.window, ways)
        reason = "one output value an invocation"
    kernels = real_sums(call, one_by_one(call, form, reason), form.boxes(call))
    yield Candidate(kernels, reason, fallback=True)


def _product(call: Call, form: Form) -> Product:
    """Describe a convolution for tiles that a workgroup shares."""
    if form.window.pointwise and form.depth % 4 == 0:
        return matrix_product(form.depth)
    return pixel_product(form) if sees_pixels(call, form) else window_product(call, form.window)


def _of_groups(call: Call, form: Form) -> Iterator[Candidate]:
    """Yield the way in register tiles for a constant filter."""
    if constants_only(call) and call.y.size:
        params, given = window_params(form.window, *form.spatial), group_reads(call, form.groups)
        tile = TILE if -(call.y.shape[3] // form.groups) % TILE.channels < 4 else NARROW_TILE
        kernel = tile_kernel(call, form.window.size, params, given, "window", {}, tile, form.groups)
        yield Candidate([kernel], "tiles of pixels and channels of a group")


def _in_tiles(
    call: Call, form: Form, reads: tuple[Read, Read] | None = None, packs: Sequence[Kernel] = ()
) -> Iterator[Candidate]:
    """Yield the ways in register tiles. reads: filter and bias, if `packs` pack them before."""
    rows, channels = math.prod(call.y.shape[:3]), call.y.shape[3]
    before = ", of a filter that is packed before" if packs else ""
    others = other_tiles(rows, channels, form.depth, call.device)
    sizes, reason = (rows, form.depth, channels), f"a product of matrices{before}"
    if sees_pixels(call, form):
        yield from of_pixels(form, products(call, sizes, reason, reads, packs))
        return
    if form.window.pointwise and (form.depth % 4 == 0 or (rows < ROWS and reads is None)):
        yield from products(call, sizes, reason, reads, packs)
        if not call.device.software:  # an NVIDIA H200 always takes longer for windows of one pixel
            return
        others = ()
    params, given = window_params(form.window, *form.spatial), reads or channel_reads(call)

    narrow = channels <= NARROW_TILE.channels and not call.device.software
    usual = NARROW_TILE if narrow else TILE

    def way(tile: RegisterTile) -> Candidate:
        kernel = tile_kernel(call, form.window.size, params, given, "window", {}, tile)
        reason = "tiles of pixels and channels" if tile is usual else tile.reason
        return Candidate([*packs, kernel], f"{reason}{before}")

    first = way(usual)
    if SMALL_TILE in others and leaves_idle(first.kernels[-1], call.device):
        yield way(SMALL_TILE)
        others = ()
    yield first
    yield from map(way, others)


def _shared_computed(call: Call, form: Form) -> list[Kernel]:
    """Make the kernels that pack a computed filter, and the one of rows that subgroups share."""
    depth = form.depth * math.prod(form.window.size)
    packs, reads = block_packed(call, call.y.shape[3], depth, (depth, 1))
    return [*packs, shared_rows(call, form.window, form.depth, reads)]


def _of_computed_filter(call: Call, form: Form) -> Iterator[Candidate]:
    """Yield the ways that pack a computed filter of real numbers first, which pays off for several pixels."""
    rows, depth = math.prod(call.y.shape[:3]), form.depth * math.prod(form.window.size)
    if rows < ROWS or call.input(1).quantization is not None or not call.input(1).size:
        return
    packs, reads = packed_reads(call)
    tiles = _in_tiles(call, form, reads, packs)
    if form.depth % STEP:
        yield from tiles
    else:
        yield from with_shared_rows(call, depth, lambda: _shared_computed(call, form), tiles)


def _form(call: Call) -> Form:
    depth = call.input(1).shape[3]
    return Form(_window(call), _spatial(call.x), depth, call.x.shape[3] // depth)


def _upwards(call: Call) -> int:
    """Return Rounding.upwards: convolutions with groups round as in LiteRT's reference kernel."""
    return call.y.shape[-1] if call.x.shape[-1] == call.input(1).shape[-1] else 0


_ROUNDING = Rounding(_upwards)


def _sums(call: Call, filter: Array, terms: Terms) -> Sums:
    """Return the sums of a filter for many runs of a call."""
    return sums_of(_window(call), call.x.shape, filter, integer_matrix(call, rows_of(filter)), terms)


def _bind_conv2d(call: Call, filter: Array, bias: Array | None = None) -> Callable[[Array], Array]:
    window = _window(call)
    pieces = partial(pieces_of, window, call.x.shape, constants_only(call))
    return bound(call, pieces, filter, bias, partial(product_pieces, call, window))


def _integer_conv2d(call: Call) -> MakeProduct:
    return integer_product(call, conv2d.reference, 0, _ROUNDING, partial(_sums, call))


def _integer_conv2d_kernels(call: Call) -> Iterator[Candidate]:
    return product_kernels(call, _form(call), _ROUNDING)


@op(
    _infer_conv2d,
    _conv2d_kernels,
    rewrite=as_depthwise,
    flops=lambda call: 2 * call.y.size * math.prod(call.input(1).shape[1:]),
    unbounded=True,
    algebra=Algebra(border=Border.ZERO),
    divide=by_rows(_window),
    filter=Filter(output_axis=0, along_input=by_groups),
    accuracy=Accuracy(terms=filter_terms, detour=sums_of_sizes, arithmetic=True, halves=filter_errors),
    fusible=True,
    prepare=prepared(_bind_conv2d),
    bind=_bind_conv2d,
    quantized=quantized_product(_integer_conv2d, _integer_conv2d_kernels),
    gradient=gradients.CONV2D,
)
def conv2d(
    x: Array,
    filter: Array,
    bias: Array | None = None,
    *,
    stride: Pair = (1, 1),
    dilation: Pair = (1, 1),
    padding: Padding = "valid",
) -> Array:
    """Convolve over height and width.

    x [N, H, W, C]; filter [O, KH, KW, I], where C / I is the number of groups; bias [O]; result [N, OH, OW,
    O]. stride, dilation: (height, width). padding: "same", "valid" or ((top, bottom), (left, right)).
    NeuralNetworks.h, ANEURALNETWORKS_CONV_2D; TFLite schema, Conv2DOptions.
    """
    window = resolve(_spatial(x), (filter.shape[1], filter.shape[2]), stride, dilation, padding)
    sums = sums_of(window, x.shape, filter, rows_of(filter).T, Terms(x.dtype))
    return real(sums, window, x, len(filter), bias)


def _spatial(x: Array | TensorType) -> Pair:
    return x.shape[1], x.shape[2]


def _infer_depthwise(call: Call) -> TensorType:
    x, filter = call.expect_rank(0, 4), call.expect_rank(1, 4)
    channels = filter.shape[3]
    if filter.shape[0] != 1:
        call.fail(f"filter must have shape [1, height, width, channels], got {list(filter.shape)}")
    if x.shape[3] == 0 or channels % x.shape[3]:
        call.fail(f"filter has {channels} channels, which is no multiple of the input's {x.shape[3]}")
    _check_bias(call, channels)
    check_types(call, 3)
    expect_bool(call, "halves_away")
    return x.with_shape((x.shape[0], *_window(call).out, channels))


def _depthwise_kernels(call: Call) -> Iterator[Candidate]:
    return depthwise_kernel.real_kernels(call, _window(call))


def _upwards_by_channel(call: Call) -> int:
    """Return Rounding.upwards of depthwise convolutions."""
    return eights(call) if call.x.dtype is DType.INT8 and not call["halves_away"] else 0


_DEPTHWISE_ROUNDING = Rounding(_upwards_by_channel)


def _bind_depthwise(call: Call, filter: Array, bias: Array | None = None) -> Callable[[Array], Array]:
    window = _window(call)
    pieces = partial(pieces_by_channel, window, call.x.shape, terms=Terms(filter.dtype))
    return bound(call, pieces, filter, bias, partial(depthwise_pieces, call, window))


def _integer_depthwise(call: Call) -> MakeProduct:
    how = partial(sums_by_channel, _window(call), call.x.shape)
    return integer_product(call, depthwise_conv2d.reference, 3, _DEPTHWISE_ROUNDING, how)


def _integer_depthwise_kernels(call: Call) -> Iterator[Candidate]:
    window = _window(call)
    if call.x.quantization is not None and constants_only(call):
        return depthwise_kernel.integer_kernels(call, window, _DEPTHWISE_ROUNDING)
    form = Form(window, _spatial(call.x), 1, call.x.shape[3], axis=3)
    return product_kernels(call, form, _DEPTHWISE_ROUNDING)


def _by_channel(shape: Shape, factor: Array) -> Array:
    return np.repeat(factor, shape[3] // factor.size)


@op(
    _infer_depthwise,
    _depthwise_kernels,
    rewrite=as_dense,
    flops=lambda call: 2 * call.y.size * math.prod(call.input(1).shape[1:3]),
    unbounded=True,
    algebra=Algebra(border=Border.ZERO),
    divide=by_rows(_window),
    filter=Filter(output_axis=3, along_input=_by_channel),
    accuracy=sums(lambda call: math.prod(call.input(1).shape[1:3]) + 1),
    fusible=True,
    prepare=prepared(_bind_depthwise),
    bind=_bind_depthwise,
    quantized=quantized_product(_integer_depthwise, _integer_depthwise_kernels),
    gradient=gradients.DEPTHWISE,
)
def depthwise_conv2d(
    x: Array,
    filter: Array,
    bias: Array | None = None,
    *,
    stride: Pair = (1, 1),
    dilation: Pair = (1, 1),
    padding: Padding = "valid",
    halves_away: bool = False,
) -> Array:
    """Convolve every channel with filters of its own.

    x [N, H, W, C]; filter [1, KH, KW, C * multiplier], where output channel c * multiplier + m belongs to
    input channel c; bias [C * multiplier]; result [N, OH, OW, C * multiplier]. stride, dilation, padding: as
    in conv2d. halves_away: quantised sums of int8 round halves away from zero as a conv2d with groups does.
    NeuralNetworks.h, ANEURALNETWORKS_DEPTHWISE_CONV_2D; TFLite schema, DepthwiseConv2DOptions.
    """
    window = resolve(_spatial(x), (filter.shape[1], filter.shape[2]), stride, dilation, padding)
    sums = sums_by_channel(window, x.shape, filter, Terms(x.dtype))
    return real(sums, window, x, filter.shape[3], bias)


OPS: tuple[Op, ...] = (conv2d, depthwise_conv2d)
