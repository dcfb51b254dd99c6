"""Sizes of images, and their rows and columns, for ops that sample images at other places."""

from __future__ import annotations

from typing import NamedTuple

from gpunn.kernel import Param, ceil_div, size_of
from gpunn.ops.call import Call
from gpunn.ops.check import expect_ints
from gpunn.types import Array

AT_ONCE = 4  # V's


def expect_image(call: Call) -> tuple[int, ...]:
    """Return attribute `size`, (height, width); raise ModelError unless it and the input have pixels."""
    _, height, width, _ = call.expect_rank(0, 4).shape
    size = expect_ints(call, "size", 2)
    if min(size) < 1:
        call.fail(f"size must be positive (height, width), got {list(size)}")
    if min(height, width) < 1:
        call.fail(f"input image must not be empty, got shape {list(call.x.shape)}")
    return size


def image_params(call: Call, lanes: int) -> dict[str, Param]:
    """Return the number of V's of the result, and the extents of images before and after."""
    _, height, width, channels = call.x.shape
    _, out_height, out_width, _ = call.y.shape
    return {
        "count": call.y.size // lanes,
        "channels": channels // lanes,
        "height": height,
        "width": width,
        "out_height": out_height,
        "out_width": out_width,
    }


class PixelParts(NamedTuple):
    """The V's of a pixel that an invocation computes, p.apart apart in shaders; and all invocations."""

    per: int
    apart: int
    invocations: int


def pixel_parts(call: Call, channels: int) -> PixelParts:
    """Divide the result's pixels of so many V's.

    Invocations take up to AT_ONCE V's, if the others occupy the device: places in the image take longer than
    numbers.
    """
    pixels, apart = size_of(call.y.shape[:3]), ceil_div(channels, AT_ONCE)
    if pixels * apart < call.device.parallel_invocations:
        apart = channels
    return PixelParts(ceil_div(channels, max(apart, 1)), apart, pixels * apart)


def picked(x: Array, rows: Array, columns: Array) -> Array:
    """Select rows and columns of x, the shrinking axis first, so that nothing exceeds x or the result in
    size.
    """
    shrinks = len(rows) <= x.shape[1]
    if shrinks:
        return x.take(rows, axis=1).take(columns, axis=2)
    return x.take(columns, axis=2).take(rows, axis=1)
