"""Rules of layers that work on height and width: convolution, pooling, upsampling, borders."""

from __future__ import annotations

import math

import numpy as np

from gpunn.importers.common.node import RefusedError
from gpunn.importers.coreml.messages import Message
from gpunn.importers.coreml.node import Node, Value
from gpunn.types import Array, Shape

Pair = tuple[int, int]
Pairs = tuple[Pair, Pair]
MAX_BORDER = 1 << 20  # elements that a border may have along an axis
MAX_SPREAD = 1 << 26  # values of a filter with zeros for what groups do not connect


def images(node: Node, x: Value) -> Value:
    """Return [..., C, H, W] as [N, H, W, C]. Raises FormatError for a rank below 3."""
    shape = node.shape(x)
    if len(shape) < 3:
        node.corrupt(f"expected an input [..., channels, height, width], got shape {list(shape)}")
    if len(shape) != 4:
        x = node.add("reshape", x, shape=(math.prod(shape[:-3]), *shape[-3:]))
    return node.add("transpose", x, perm=(0, 2, 3, 1))


def channel_first(node: Node, y: Value, leading: Shape) -> Value:
    """Return [N, H, W, C] as [*leading, C, H, W]."""
    y = node.add("transpose", y, perm=(0, 3, 1, 2))
    return y if len(leading) == 1 else node.add("reshape", y, shape=(*leading, *node.shape(y)[1:]))


def extents(node: Node, values: Shape, what: str, default: int) -> Pair:
    """Return (height, width) of a parameter; each must be 1 or more."""
    height, width = node.ints_of(values, what, 2, default)
    if min(height, width) < 1:
        node.corrupt(f"{what} must be positive, got {[height, width]}")
    return height, width


def border(node: Node, amounts: Message) -> Pairs:
    """Return ((top, bottom), (left, right)) of BorderAmounts; absent, all are 0."""
    sizes = [(int(e.startEdgeSize), int(e.endEdgeSize)) for e in amounts.borderAmounts]
    if len(sizes) not in (0, 2):
        node.corrupt(f"borders are stated for {len(sizes)} axes, expected 2")
    if any(max(size) > MAX_BORDER for size in sizes):
        node.corrupt(f"a border has more than {MAX_BORDER} elements: {sizes}")
    rows, columns = sizes or [(0, 0), (0, 0)]
    return rows, columns


def _share(total: int, same: Message) -> Pair:
    """Divide padding between start and end; SamePadding says which gets the odd one."""
    total = max(0, total)
    less = total // 2
    return (total - less, less) if same.asymmetryMode == 1 else (less, total - less)


def _same(spatial: Shape, reach: Pair, stride: Pair, same: Message) -> Pairs:
    """Return the padding that gives ceil(input / stride) results along both axes."""
    along = [
        _share((-(-n // s) - 1) * s + r - n, same) for n, r, s in zip(spatial, reach, stride, strict=True)
    ]
    return along[0], along[1]


def convolution(node: Node) -> Value:
    """Return a convolution or deconvolution, with weights of the file or of a second input."""
    params = node.params
    kernel, stride = (
        extents(node, params.kernelSize, "kernelSize", 3),
        extents(node, params.stride, "stride", 1),
    )
    dilation = extents(node, params.dilationFactor, "dilationFactor", 1)
    x = node.operand(0)
    leading = x.type.shape[:-3]
    image = images(node, x)
    channels, groups = node.shape(image)[3], int(params.nGroups) or 1
    reach = (kernel[0] - 1) * dilation[0] + 1, (kernel[1] - 1) * dilation[1] + 1
    outputs = int(params.outputChannels)
    if channels % groups or outputs % groups:
        node.corrupt(f"{channels} and {outputs} channels cannot be divided into {groups} groups")
    bias = node.floats(node.weights(params.bias, outputs, what="bias")) if params.hasBias else None
    if params.isDeconvolution:
        y = _deconvolution(node, image, bias, reach, stride)
    else:
        is_same = params.WhichOneof("ConvolutionPaddingType") == "same"
        padding = (
            _same(node.shape(image)[1:3], reach, stride, params.same)
            if is_same
            else border(node, params.valid.paddingAmounts)
        )
        attrs = {"stride": stride, "dilation": dilation, "padding": padding}
        if len(node.inputs) == 2:
            weights = _rank4(node, node.operand(1))
            _expect_share(node, node.shape(weights)[1], channels, groups)
            filter: Value = node.add("transpose", weights, perm=(0, 2, 3, 1))
        else:
            _expect_share(node, int(params.kernelChannels), channels, groups)
            stored = node.weights(params.weights, outputs, int(params.kernelChannels), *kernel)
            if groups == channels and params.kernelChannels == 1 and groups > 1:
                depthwise = node.floats(np.ascontiguousarray(stored.transpose(1, 2, 3, 0)))
                return channel_first(
                    node, node.add("depthwise_conv2d", image, depthwise, bias, **attrs), leading
                )
            filter = node.floats(np.ascontiguousarray(stored.transpose(0, 2, 3, 1)))
        y = node.add("conv2d", image, filter, bias, **attrs)
    return channel_first(node, y, leading)


def _expect_share(node: Node, each: int, channels: int, groups: int) -> None:
    """Raise FormatError unless filters of `each` channels see those of one group."""
    if each * groups != channels:
        node.corrupt(f"filters of {each} channels in {groups} groups do not fit an input of {channels}")


def _rank4(node: Node, weights: Value) -> Value:
    """Return weights of another layer as [outputs, inputs, height, width]."""
    shape = node.shape(weights)
    if len(shape) == 4:
        return weights
    if len(shape) == 5 and shape[0] == 1:
        return node.add("reshape", weights, shape=shape[1:])
    node.corrupt(f"the weights must have rank 4, got shape {list(shape)}")


def _deconvolution(node: Node, image: Value, bias: Value | None, reach: Pair, stride: Pair) -> Value:
    """Return [N, H, W, outputs], each pixel spread over a window.

    Dilation counts: the document says that it is ignored, but Core ML's converters and checks use it.
    """
    params = node.params
    count, height, width, channels = node.shape(image)
    if len(node.inputs) != 1:
        raise RefusedError("weights of another layer are not defined for a deconvolution")
    outputs, groups = int(params.outputChannels), int(params.nGroups) or 1
    kernel = extents(node, params.kernelSize, "kernelSize", 3)
    dilation = extents(node, params.dilationFactor, "dilationFactor", 1)
    stored = node.weights(params.weights, channels, outputs // groups, *kernel)
    whole = ((height - 1) * stride[0] + reach[0], (width - 1) * stride[1] + reach[1])
    crops, size = _kept(node, (height, width), whole, stride)
    # Groups take a filter with zeros, or zeros between the pixels: the products that nobody needs are
    # groups times as many, or as many as a stride has pixels.
    y: Value
    if groups > math.prod(stride) or stored.size * groups > MAX_SPREAD:
        x = node.add("reshape", image, shape=(count, 1, height, width, channels))
        attrs = {"stride": (1, *stride), "dilation": (1, *dilation), "groups": groups}
        filter = node.floats(np.ascontiguousarray(stored.transpose(2, 3, 1, 0)[None]))
        y = node.add("transpose_conv3d", x, filter, size=(1, *whole), padding="valid", **attrs)
        y = node.add("reshape", y, shape=(count, *whole, outputs))
    else:
        spread: Value = node.floats(_spread_filter(stored, outputs, groups))
        if dilation != (1, 1):
            spread = node.add("dilate", spread, steps=(1, *dilation, 1))
        if size[0] <= whole[0] and size[1] <= whole[1]:
            attrs = {"size": size, "stride": stride, "padding": crops}
            return node.add("transpose_conv2d", image, spread, bias, **attrs)
        y = node.add("transpose_conv2d", image, spread, size=whole, stride=stride, padding="valid")
    y = part(node, y, (crops[0][0], crops[1][0]), size)
    return y if bias is None else node.add("add", y, bias)


def _kept(node: Node, spatial: Pair, whole: Pair, stride: Pair) -> tuple[Pairs, Pair]:
    """Return what is cut off all pixels that windows reach, and the extents of the result."""
    params = node.params
    if len(params.outputShape):
        size = node.ints_of(params.outputShape, "outputShape", 2)
    elif params.WhichOneof("ConvolutionPaddingType") == "same":
        size = (spatial[0] * stride[0], spatial[1] * stride[1])
    else:
        rows, columns = border(node, params.valid.paddingAmounts)
        return (rows, columns), (whole[0] - sum(rows), whole[1] - sum(columns))
    rows, columns = (_share(w - n, params.same) for w, n in zip(whole, size, strict=True))
    return (rows, columns), (size[0], size[1])


def part(node: Node, y: Value, starts: Shape, size: Shape) -> Value:
    """Return a part of [N, ..., C], all axes between these two counted; 0 where it exceeds y."""
    whole = node.shape(y)[1:-1]
    ends = tuple(start + n for start, n in zip(starts, size, strict=True))
    missing = [max(0, end - n) for end, n in zip(ends, whole, strict=True)]
    if any(n > MAX_BORDER for n in missing) or min(size) < 1:
        node.corrupt(f"a result of {list(size)} does not come of {list(whole)} cells")
    if any(missing):
        y = node.add("pad", y, paddings=((0, 0), *((0, n) for n in missing), (0, 0)), value=0.0)
    if size == whole:
        return y
    begin, end = (None, *starts, None), (None, *ends, None)
    return node.add("strided_slice", y, begin=begin, end=end, strides=(1,) * (len(size) + 2), shrink_axes=())


def _spread_filter(stored: Array, outputs: int, groups: int) -> Array:
    """Return weights [inputs, outputs / groups, height, width] as a filter [outputs, height, width, inputs].

    Groups leave zeros.
    """
    turned = stored.transpose(1, 2, 3, 0)
    if groups == 1:
        return np.ascontiguousarray(turned)
    _, *kernel, channels = turned.shape
    filter = np.zeros((outputs, *kernel, channels), np.float32)
    rows, columns = outputs // groups, channels // groups
    for group in range(groups):
        own = slice(group * columns, (group + 1) * columns)
        filter[group * rows : (group + 1) * rows, ..., own] = turned[..., own]
    return filter


def pooling(node: Node) -> Value:
    """Return the maximum, the average or the root of the sum of squares of windows, or of whole channels."""
    params, x = node.params, node.only()
    if params.type not in (0, 1, 2):
        raise RefusedError(f"its type number {params.type} is not in the format's document")
    if params.globalPooling:
        return global_pool(node, x, params.type)
    kernel, stride = (
        extents(node, params.kernelSize, "kernelSize", 3),
        extents(node, params.stride, "stride", 1),
    )
    image = images(node, x)
    padding = _pool_padding(node, node.shape(image)[1:3], kernel, stride)
    attrs = {"size": kernel, "stride": stride}
    if params.type == 0:
        y = node.add("max_pool2d", image, **attrs, padding=padding)
    elif params.type == 1 and params.avgPoolExcludePadding:
        y = node.add("average_pool2d", image, **attrs, padding=padding)
    else:
        # These ops divide by the cells inside the input; with zeros for the padding all are inside.
        if any(map(any, padding)):
            image = node.add("pad", image, paddings=((0, 0), *padding, (0, 0)), value=0.0)
        y = node.add("average_pool2d" if params.type == 1 else "l2_pool2d", image, **attrs, padding="valid")
        if params.type == 2:
            y = node.add("mul", y, node.scalar(math.sqrt(math.prod(kernel))))
    return channel_first(node, y, node.shape(x)[:-3])


def _pool_padding(node: Node, spatial: Shape, kernel: Pair, stride: Pair) -> Pairs:
    params = node.params
    kind = params.WhichOneof("PoolingPaddingType")
    if kind == "same":
        return _same(spatial, kernel, stride, params.same)
    if kind != "includeLastPixel":
        return border(node, params.valid.paddingAmounts)
    amounts = node.ints_of(params.includeLastPixel.paddingAmounts, "paddingAmounts", 2, 0)
    if max(amounts) > MAX_BORDER:
        node.corrupt(f"paddingAmounts are more than {MAX_BORDER}: {list(amounts)}")
    along = []
    for n, k, s, pad in zip(spatial, kernel, stride, amounts, strict=True):
        count = -(-(n + 2 * pad - k) // s) + 1
        # The padding of either axis counts for both.
        if any(amounts) and (count - 1) * s >= n + pad:
            count -= 1
        along.append((pad, max(0, (count - 1) * s + k - n - pad)))
    return along[0], along[1]


def global_pool(node: Node, x: Value, kind: int) -> Value:
    """Return one value for each channel: maximum 0, average 1, root of the sum of squares 2."""
    attrs = {"axes": (-2, -1), "keep_dims": True}
    if kind == 2:
        return node.add("sqrt", node.add("reduce_sum", node.add("square", x), **attrs))
    return node.add("mean" if kind else "reduce_max", x, **attrs)


def upsample(node: Node) -> Value:
    """Return images enlarged by whole or fractional factors: nearest neighbour or bilinear."""
    params, x = node.params, node.only()
    image = images(node, x)
    spatial = node.shape(image)[1:3]
    if len(params.fractionalScalingFactor):
        factors = [float(f) for f in params.fractionalScalingFactor]
        if not all(0 < f < MAX_BORDER for f in factors):
            node.corrupt(f"fractionalScalingFactor must be positive, got {factors}")
    else:
        factors = [float(f) for f in extents(node, params.scalingFactor, "scalingFactor", 1)]
    if len(factors) != 2:
        node.corrupt(f"there are {len(factors)} scaling factors, expected 2")
    # Fractions in float32, which gives as many pixels as PyTorch has: 7 of 5 and a factor of 1.4.
    number = np.float32 if len(params.fractionalScalingFactor) else int
    size = tuple(math.floor(number(n) * number(f)) for n, f in zip(spatial, factors, strict=True))
    if params.mode == 0:
        y = node.add("resize_nearest", image, size=size)
    else:
        corners = {"align_corners": params.linearUpsampleMode == 1}
        y = node.add(
            "resize_bilinear", image, size=size, half_pixel_centers=params.linearUpsampleMode == 2, **corners
        )
    return channel_first(node, y, node.shape(x)[:-3])


def padding(node: Node) -> Value:
    """Return x with a border along height and width: a constant, a reflection, or the edge repeated."""
    params, x = node.params, node.only()
    (top, bottom), (left, right) = border(node, params.paddingAmounts)
    rank = x.type.rank
    if rank < 2:
        node.corrupt(f"expected an input with height and width, got shape {list(x.type.shape)}")
    paddings = (*((0, 0),) * (rank - 2), (top, bottom), (left, right))
    kind = params.WhichOneof("PaddingType")
    if kind == "reflection":
        return node.add("mirror_pad", x, paddings=paddings, mode="reflect")
    if kind != "replication":
        return node.add("pad", x, paddings=paddings, value=params.constant.value)
    y: Value = x
    for axis, (start, end) in zip((rank - 2, rank - 1), paddings[-2:], strict=True):
        extent = x.type.shape[axis]
        rows = node.integers(np.clip(np.arange(-start, extent + end), 0, extent - 1))
        y = node.add("gather", y, rows, axis=axis)
    return y


def crop(node: Node) -> Value:
    """Return x without a border, or a window of the second input's height and width."""
    params, x = node.params, node.operand(0)
    height, width = x.type.shape[-2:] if x.type.rank >= 2 else (0, 0)
    if len(node.inputs) == 2:
        top, left = node.ints_of(params.offset, "offset", 2, 0)
        size = node.operand(1).type.shape[-2:]
        if len(size) != 2:
            node.corrupt(f"expected a second input with height and width, got shape {list(size)}")
        bottom, right = top + size[0], left + size[1]
    else:
        (top, below), (left, beyond) = border(node, params.cropAmounts)
        bottom, right = height - below, width - beyond
    if not (0 <= top < bottom <= height and 0 <= left < right <= width):
        node.corrupt(f"nothing is left of {height} x {width}, or there is less: {[top, bottom, left, right]}")
    rank = x.type.rank
    open_ = (None,) * (rank - 2)
    return node.add(
        "strided_slice",
        x,
        begin=(*open_, top, left),
        end=(*open_, bottom, right),
        strides=(1,) * rank,
        shrink_axes=(),
    )
