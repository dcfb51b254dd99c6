"""The gradients of resizing, and crops and warps written in other ops.

Resizing is linear, rows and columns apart, so each gradient is a product with a matrix. Crops and warps
gather the four pixels around each point, so gradients go back to images, boxes and matrices.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gpunn.ops.call import Call
from gpunn.ops.gradient import Backward, Gradient, Symbol, by_operand
from gpunn.ops.movement.gradients import along
from gpunn.types import Array


def resize(meaning: Callable[[str], Callable[..., Array]]) -> Gradient:
    """Make the gradient of a resizing; `meaning` gives what an op computes in numpy, by its name."""

    def matrix(back: Backward, extent: int, out: int) -> Symbol:
        """Return [out, extent]: how much each row of the result takes of each row of the image."""
        attrs = {**back.call.attrs, "size": (out, 1)}
        rows = np.eye(extent).reshape(1, extent, 1, extent)
        return back.g.constant(meaning(back.call.op)(rows, **attrs).reshape(out, extent))

    def partial(back: Backward) -> Symbol | None:
        batch, height, width, channels = back.x.shape
        _, rows, columns, _ = back.g.shape
        if not back.call.x.size:
            return None
        down = matrix(back, height, rows).of(
            "batch_matmul", back.g.reshaped((batch, rows, columns * channels)), adj_a=True
        )
        across = matrix(back, width, columns).of(
            "batch_matmul", down.reshaped((batch * height, columns, channels)), adj_a=True
        )
        return across.reshaped(back.x.shape)

    return by_operand(partial)


def _between(x: Symbol, images: Symbol, row: Symbol, column: Symbol) -> Symbol:
    """Resample images [N, H, W, C] linearly at points inside.

    images, int32, and float rows and columns of the points: of shapes that broadcast.
    """
    _, height, width, channels = x.shape
    pixels, dtype = x.reshaped((x.type.size // channels, channels)), x.type.dtype.value

    def sides(place: Symbol, extent: int) -> tuple[Symbol, Symbol, Symbol]:
        """Return the pixel before, the one after, and the distance from the former."""
        before = place.of("floor")
        first = before.of("cast", dtype="int32")
        distance = (place - before).of("cast", dtype=dtype)
        return first, (first + 1).of("minimum", extent - 1), distance.reshaped((*distance.shape, 1))

    top, bottom, down = sides(row, height)
    left, right, across = sides(column, width)

    def line(rows: Symbol) -> Symbol:
        base = (images * height + rows) * width
        near, far = (pixels.of("gather", base + c, axis=0) for c in (left, right))
        return near * (1.0 - across) + far * across

    return line(top) * (1.0 - down) + line(bottom) * down


def crop(steps: Callable[[Call, int], tuple[float, float, float, float]]) -> Callable[..., Symbol]:
    """Write crop_resize; `steps` gives more, least, shift and parts of a sampling for a number of points."""

    def points(call: Call, boxes: Symbol, first: int, count: int, extent: int) -> Symbol:
        """Return the places [N, count] of points between two columns of the boxes."""
        more, least, shift, parts = steps(call, count)
        start, end = along(boxes, 1, first, first + 1), along(boxes, 1, first + 2, first + 3)
        way = end - start
        length = way.of("abs")
        spacing = (length + more).of("maximum", least) * (1 / parts)
        offset = (spacing * spacing.constant(np.arange(count) + shift)).of("minimum", length)
        place = start + way.of("less", 0.0).of("select", -offset, offset)
        return place.of("clamp", 0.0, float(extent - 1))

    def write(call: Call, x: Symbol, boxes: Symbol, images: Symbol) -> Symbol:
        _, height, width, _ = x.shape
        rows, columns = call["size"]
        count = boxes.shape[0]
        row = points(call, boxes, 0, rows, height).reshaped((count, rows, 1))
        column = points(call, boxes, 1, columns, width).reshaped((count, 1, columns))
        found = _between(x, images.reshaped((count, 1, 1)), row, column)
        return found.of("reshape", shape=call.y.shape)

    return write


def warp(call: Call, x: Symbol, matrix: Symbol) -> Symbol:
    """Write warp_affine."""
    images, height, width, _ = x.shape
    shift = 0.5 if call["half_pixel_centers"] else 0.0
    down, across = (matrix.constant(np.arange(n) + shift) for n in call["size"])
    down = down.reshaped((call["size"][0], 1))

    def entry(line: int, column: int) -> Symbol:
        found = along(along(matrix, 1, line, line + 1), 2, column, column + 1)
        return found.reshaped((images, 1, 1))

    def place(line: int) -> Symbol:
        return entry(line, 0) * across + entry(line, 1) * down + entry(line, 3) - shift

    column, row = place(0), place(1)
    inside = row.of("greater_equal", 0.0)
    for test in (
        row.of("less_equal", float(height - 1)),
        column.of("greater_equal", 0.0),
        column.of("less_equal", float(width - 1)),
    ):
        inside = inside.of("logical_and", test)
    row, column = (inside.of("select", p, p.symbol(0.0)) for p in (row, column))
    numbers = x.to.constant(np.arange(images, dtype=np.int32).reshape(images, 1, 1))
    found = _between(x, Symbol(x.to, numbers), row, column)
    return inside.reshaped((*inside.shape, 1)).of("select", found, found.symbol(0.0))


def crop_matrix(call: Call, points: Symbol) -> Symbol:
    """Write rotated_crop_matrix: its numbers are tensors [1, 1]."""
    (wide, high), (left, top) = call["scale"], call["origin"]

    def coordinate(first: int, last: int, axis: int) -> Symbol:
        return along(along(points, 0, first, last), 1, axis, axis + 1)

    dx, dy = (coordinate(1, 2, axis) - coordinate(0, 1, axis) for axis in range(2))
    if call["half_turn"]:
        back = dx.of("less", 0.0)
        dx, dy = (back.of("select", -d, d) for d in (dx, dy))
    angle = float(call["rotation"]) - dy.of("atan2", dx)
    cosine, sine = angle.of("cos"), angle.of("sin")
    x, y = (coordinate(2, points.shape[0], axis) for axis in range(2))
    sides, middles = list[Symbol](), list[Symbol]()
    for turned in (x * cosine - y * sine, x * sine + y * cosine):
        least, most = (turned.of(op, axes=(0,), keep_dims=True) for op in ("reduce_min", "reduce_max"))
        sides.append(most - least)
        middles.append((least + most) * 0.5)
    nothing, lines = points.constant([[0.0]]), list[Symbol]()
    for c, s, stretch in ((cosine, sine, call["stretch"][0]), (-sine, cosine, call["stretch"][1])):
        across, down = c * sides[0] * wide, s * sides[1] * high
        shift = c * middles[0] + s * middles[1] - (across * left + down * top)
        lines.append(across.of("concat", down, nothing, shift, axis=1) * stretch)
    rest = points.constant([[0.0, 0.0, 1.0, 0.0], [0.0, 0.0, 0.0, 1.0]])
    return lines[0].of("concat", lines[1], rest, axis=0)
