"""Functions of PyTorch for convolutions, products of matrices, pools and other windows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tests.training.pytorch.movement import dilate
from tests.training.pytorch.tools import Function, channels_last, surrounded, torch, window_pairs


def convolved(
    x: Any,
    weights: Any,
    bias: Any,
    groups: int,
    stride: Sequence[int] | int = 1,
    dilation: Sequence[int] | int = 1,
    padding: Any = "valid",
) -> Any:
    """Convolve [N, ..., C] with weights [O, C / groups, ...]."""
    convolve = getattr(torch.nn.functional, f"conv{x.ndim - 2}d")
    pairs = window_pairs(padding, x.shape[1:-1], weights.shape[2:], stride, dilation)
    return channels_last(
        lambda x: convolve(surrounded(x, pairs), weights, bias, stride, 0, dilation, groups)
    )(x)


def conv2d(x: Any, filter: Any, bias: Any = None, **how: Any) -> Any:
    return convolved(x, filter.movedim(3, 1), bias, x.shape[3] // filter.shape[3], **how)


def depthwise_conv2d(x: Any, filter: Any, bias: Any = None, **how: Any) -> Any:
    return convolved(x, filter.permute(3, 0, 1, 2), bias, x.shape[3], **how)


def conv3d(x: Any, filter: Any, bias: Any = None, *, groups: int = 1, **how: Any) -> Any:
    return convolved(x, filter.permute(4, 3, 0, 1, 2), bias, groups, **how)


def transposed(
    x: Any,
    weights: Any,
    bias: Any,
    size: Sequence[int],
    stride: Sequence[int] | int = 1,
    padding: Any = "valid",
    dilation: Sequence[int] | int = 1,
    groups: int = 1,
) -> Any:
    """Spread [N, ..., C] by weights [C, O / groups, ...], and cut the padding around `size`."""
    convolve = getattr(torch.nn.functional, f"conv_transpose{len(size)}d")
    pairs = window_pairs(padding, size, weights.shape[2:], stride, dilation)

    def function(x: Any) -> Any:
        whole = convolve(x, weights, None, stride, 0, 0, groups, dilation)
        cuts = [(-b, n + b - m) for n, m, (b, _) in zip(size, whole.shape[2:], pairs, strict=True)]
        return surrounded(whole, cuts)

    found = channels_last(function)(x)
    return found if bias is None else found + bias


def transpose_conv2d(x: Any, filter: Any, bias: Any = None, **how: Any) -> Any:
    return transposed(x, filter.permute(3, 0, 1, 2), bias, **how)


def transpose_conv3d(x: Any, filter: Any, bias: Any = None, **how: Any) -> Any:
    return transposed(x, filter.permute(4, 3, 0, 1, 2), bias, **how)


def fully_connected(x: Any, filter: Any, bias: Any = None, *, keep_dims: bool = False) -> Any:
    return torch.nn.functional.linear(x if keep_dims else x.reshape(-1, filter.shape[1]), filter, bias)


def batch_matmul(a: Any, b: Any, *, adj_a: bool = False, adj_b: bool = False) -> Any:
    return torch.matmul(a.mT if adj_a else a, b.mT if adj_b else b)


def dot_general(a: Any, b: Any, **axes: Sequence[int]) -> Any:
    """Write the product as a sum over named dimensions."""
    of_a, of_b = [*range(a.ndim)], [*range(a.ndim, a.ndim + b.ndim)]
    batch, summed = [*axes.get("a_batch", ())], [*axes["a_contracting"]]
    for p, q in zip([*batch, *summed], [*axes.get("b_batch", ()), *axes["b_contracting"]], strict=True):
        of_b[q] = of_a[p]
    rest = [name for name in (*of_a, *of_b) if name not in (*batch, *summed)]
    return torch.einsum(a, of_a, b, of_b, [*batch, *rest])


def pooled(pool: str, fill: float) -> Function:
    """Make a pool of windows, which may lie over an image's border."""

    def function(x: Any, *, size: Any, stride: Any = (1, 1), padding: Any = "valid") -> Any:
        pairs = window_pairs(padding, x.shape[1:3], size, stride)
        of_images = getattr(torch.nn.functional, pool)
        return channels_last(lambda x: of_images(surrounded(x, pairs, fill), size, stride))(x)

    return function


def average_pool2d(x: Any, **window: Any) -> Any:
    """Cells outside of the image do not count."""
    average = pooled("avg_pool2d", 0.0)
    return average(x, **window) / average(torch.ones_like(x), **window)


def max_unpool2d(x: Any, positions: Any, *, size: Any, stride: Any) -> Any:
    """Put values one after the other, so the last one for a place remains."""
    images, height, width, channels = x.shape
    shape = images, height * size[0], width * size[1], channels
    found = x.new_zeros(shape)
    offsets = [max(s - k, 0) // 2 if s > k else 0 for k, s in zip(size, stride, strict=True)]
    for row in range(height):
        for column in range(width):
            for n in range(images):
                for c in range(channels):
                    place = int(positions[n, row, column, c])
                    y = row * stride[0] - offsets[0] + place // size[1]
                    z = column * stride[1] - offsets[1] + place % size[1]
                    if 0 <= place < size[0] * size[1] and 0 <= y < shape[1] and 0 <= z < shape[2]:
                        at = tuple(torch.tensor(k) for k in (n, y, z, c))
                        found = found.index_put(at, x[n, row, column, c])
    return found


OF_MANY = {
    "sum": ("sum", "add"),
    "prod": ("prod", "mul"),
    "max": ("amax", "maximum"),
    "min": ("amin", "minimum"),
}
NEUTRAL = {"sum": 0.0, "prod": 1.0, "max": float("-inf"), "min": float("inf")}


def reduce_from(x: Any, initial: Any, *, function: str, axes: Sequence[int]) -> Any:
    many, pair = OF_MANY[function]
    for axis in sorted({axis % x.ndim for axis in axes}, reverse=True):
        x = getattr(torch, many)(x, axis)
    return getattr(torch, pair)(x, initial.reshape(()))


def reduce_window(x: Any, initial: Any = None, *, function: str, size: Sequence[int], **how: Any) -> Any:
    """Reduce windows axis by axis; maxima of two axes, next to each other as they are, by a max pool."""
    ones = (1,) * x.ndim
    fill = x.new_tensor(NEUTRAL[function]) if initial is None else initial
    found = dilate(x, fill, steps=how.get("base_dilations", ones), paddings=how.get("paddings"))
    many, pair = OF_MANY[function]
    if function == "max" and x.ndim == 2 and "dilations" not in how:
        pools = torch.nn.functional.max_pool2d(found[None], [*size], [*how.get("strides", ones)])[0]
        return pools if initial is None else torch.maximum(pools, initial.reshape(()))
    steps = zip(size, how.get("strides", ones), how.get("dilations", ones), strict=True)
    for axis, (k, s, d) in enumerate(steps):
        found = getattr(torch, many)(found.unfold(axis, (k - 1) * d + 1, s)[..., ::d], -1)
    return found if initial is None else getattr(torch, pair)(found, initial.reshape(()))


WINDOWS: Mapping[str, Function] = {
    "average_pool2d": average_pool2d,
    "batch_matmul": batch_matmul,
    "conv2d": conv2d,
    "conv3d": conv3d,
    "depthwise_conv2d": depthwise_conv2d,
    "dot_general": dot_general,
    "fully_connected": fully_connected,
    "l2_pool2d": lambda x, **window: average_pool2d(x.square(), **window).sqrt(),
    "max_pool2d": pooled("max_pool2d", float("-inf")),
    "max_unpool2d": max_unpool2d,
    "reduce_from": reduce_from,
    "reduce_window": reduce_window,
    "transpose_conv2d": transpose_conv2d,
    "transpose_conv3d": transpose_conv3d,
}
