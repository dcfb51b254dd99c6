"""Rules of normalisations and softmax."""

from __future__ import annotations

import math

import numpy as np

from gpunn.importers.coreml.node import Node, Value
from gpunn.importers.coreml.rules.windows import MAX_BORDER

CHANNEL, IMAGE, ALL = (-3,), (-2, -1), (-3, -2, -1)


def _expect_channels(node: Node) -> Value:
    """Return the one input, [..., C, H, W]. Raises FormatError for a rank below 3."""
    x = node.only()
    if x.type.rank < 3:
        node.corrupt(f"expected an input [..., channels, height, width], got shape {list(x.type.shape)}")
    return x


def batchnorm(node: Node) -> Value:
    """Return gamma (x - mean) / sqrt(variance + epsilon) + beta along the channels.

    Mean and variance are stored, or those of each image's channels, or of the whole batch's.
    """
    params, x = node.params, _expect_channels(node)
    channels = node.shape(x)[-3]
    if params.channels != channels:
        node.corrupt(f"expected {params.channels} channels, got shape {list(node.shape(x))}")
    epsilon = params.epsilon or 1e-5
    stored = {
        name: node.weights(getattr(params, name), channels, what=name).reshape(-1, 1, 1)
        for name in ("gamma", "beta", *(() if params.computeMeanVar else ("mean", "variance")))
    }
    if params.computeMeanVar:
        batch = () if params.instanceNormalization else tuple(range(len(node.shape(x)) - 3))
        y = _standardised(node, x, (*batch, *IMAGE), epsilon)
        return node.add("add", node.add("mul", y, node.floats(stored["gamma"])), node.floats(stored["beta"]))
    with np.errstate(all="ignore"):  # weights may be anything
        gamma, beta, mean, variance = (stored[k].astype(np.float64) for k in stored)
        factor = gamma / np.sqrt(variance + epsilon)
        scale, shift = factor.astype(np.float32), (beta - mean * factor).astype(np.float32)
    return node.add("add", node.add("mul", x, node.floats(scale)), node.floats(shift))


def _centred(node: Node, x: Value, axes: tuple[int, ...]) -> Value:
    return node.add("sub", x, node.add("mean", x, axes=axes, keep_dims=True))


def _standardised(node: Node, x: Value, axes: tuple[int, ...], epsilon: float) -> Value:
    """Return x less its mean, divided by the root of its biased variance plus epsilon."""
    centred = _centred(node, x, axes)
    variance = node.add("mean", node.add("square", centred), axes=axes, keep_dims=True)
    root = node.add("rsqrt", node.add("add", variance, node.scalar(epsilon)))
    return node.add("mul", centred, root)


def mvn(node: Node) -> Value:
    """Return x less its mean, if so stated divided by its standard deviation, for each image or channel."""
    params, x = node.params, _expect_channels(node)
    axes = ALL if params.acrossChannels else IMAGE
    if not params.normalizeVariance:
        return _centred(node, x, axes)
    return _standardised(node, x, axes, params.epsilon or 1e-6)


def l2_normalize(node: Node) -> Value:
    """Return x divided by the root of the sum of all its squares plus epsilon."""
    x = _expect_channels(node)
    total = node.add("reduce_sum", node.add("square", x), axes=ALL, keep_dims=True)
    root = node.add("rsqrt", node.add("add", total, node.scalar(node.params.epsilon or 1e-6)))
    return node.add("mul", x, root)


def lrn(node: Node) -> Value:
    """Return x divided by a power of the squares of neighbouring channels; alpha is for all of these.

    An even window reaches one channel further back than ahead, as Apple's documents say of the GPU's kernel
    (Metal Performance Shaders, MPSCNNCrossChannelNormalization).
    """
    params, x = node.params, _expect_channels(node)
    size = int(params.localSize)
    if not 0 < size <= MAX_BORDER:
        node.corrupt(f"localSize must be 1 to {MAX_BORDER}, got {size}")
    if size % 2 == 0:
        return _lrn_of_even_window(node, x, size)
    return node.add(
        "local_response_normalization",
        x,
        radius=size // 2,
        bias=params.k or 1.0,
        alpha=params.alpha / size,
        beta=params.beta,
        axis=len(node.shape(x)) - 3,
    )


def _lrn_of_even_window(node: Node, x: Value, size: int) -> Value:
    params, rank = node.params, len(node.shape(x))
    paddings = ((0, 0),) * (rank - 3) + ((size // 2, size // 2 - 1), (0, 0), (0, 0))
    sums = node.add(
        "reduce_window",
        node.add("square", x),
        node.scalar(0),
        function="sum",
        size=(*(1,) * (rank - 3), size, 1, 1),
        strides=(1,) * rank,
        paddings=paddings,
    )
    weighted = node.add("mul", sums, node.scalar(params.alpha / size))
    base = node.add("add", weighted, node.scalar(params.k or 1.0))
    return node.add("mul", x, node.add("pow", base, node.scalar(-params.beta)))


def softmax(node: Node) -> Value:
    """Return softmax along the channels."""
    x = _expect_channels(node)
    return node.add("softmax", x, axis=len(node.shape(x)) - 3)


def softmax_nd(node: Node) -> Value:
    """Return softmax along an axis."""
    x = node.only()
    return node.add("softmax", x, axis=node.axis(node.params.axis, x.type.rank))


def layer_normalization(node: Node) -> Value:
    """Return x standardised along its last axes, times gamma, plus beta."""
    params, x = node.params, node.only()
    shape = tuple(int(n) for n in params.normalizedShape)
    if not shape or x.type.shape[-len(shape) :] != shape:
        node.corrupt(f"normalizedShape is {list(shape)}, the input has shape {list(x.type.shape)}")
    y = _standardised(node, x, tuple(range(-len(shape), 0)), params.eps)
    gamma, beta = (node.weights(m, math.prod(shape)).reshape(shape) for m in (params.gamma, params.beta))
    return node.add("add", node.add("mul", y, node.floats(gamma)), node.floats(beta))
