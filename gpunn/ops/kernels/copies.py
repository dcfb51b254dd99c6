"""Kernels that copy and fill, for all ops that move elements.

A copy between two dense tensors is one walk through a space with a stride per dimension on either side. How
the strides lie decides on the body: strided_copy, copy_fours, copy_tiles, copy_ragged_tiles, copy_words or
copy_rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from gpunn.kernel import (
    Function,
    Grid,
    Kernel,
    Param,
    Read,
    Scratch,
    Write,
    ceil_div,
    flat_threads,
    nested,
    size_of,
    tile_grid,
    vec_width,
)
from gpunn.ops.kernels.each import each
from gpunn.ops.kernels.strides import (
    aligned,
    by_fours,
    dense,
    halves,
    merge,
    space_constants,
    space_params,
    splat,
)
from gpunn.types import DType, Shape, TensorType

_FEW = 1024  # elements


def number_param(dtype: DType, value: float) -> Param:
    """Convert a number of a dtype to a parameter, which bodies read as T(p.name)."""
    if dtype.numpy.kind == "c":
        return complex(value)
    if dtype.numpy.kind == "f":
        return float(value)
    bits = int(value) % 2**64
    return (bits % 2**32, bits >> 32) if dtype is DType.INT64 else bits % 2**32


def strided_copy(
    read: Read,
    sizes: Shape,
    x: Shape,
    y: Shape,
    *,
    x_start: int = 0,
    y_start: int = 0,
    output: int | Scratch = 0,
    functions: Mapping[str, Function] | None = None,
    tables: tuple[Read, ...] = (),
    reason: str,
) -> Kernel:
    """Make a kernel that copies a space of `sizes`, walking x and y by their strides from their starts.

    y is result `output`, or a tensor for later kernels. `functions` may contain a function for every element,
    `tables` the tables that it reads.
    """
    sizes, x, y = merge(sizes, x, y)
    way = _way(_Space(sizes, x, y, x_start, y_start))
    return Kernel(
        body=way.body,
        threads=way.threads,
        reads=(Read("x", read.operand, width=way.width, once=all(x), by_elements=all(x)), *tables),
        writes=(Write(output=output, width=way.lanes),),
        params=way.params,
        constants=way.constants,
        functions=functions or {},
        lanes=way.lanes,
        loop_iterations=way.loops,
        index_bound=True,
        reason=reason,
    )


class _Space(NamedTuple):
    """A merged space that is copied: extents, the strides of x and y, and where each begins."""

    sizes: Shape
    x: Shape
    y: Shape
    x_start: int
    y_start: int

    def fours(self) -> _Space:
        """Return the same space counted in fours."""
        sizes, x, y = by_fours(self.sizes, self.x, self.y)
        return _Space(sizes, x, y, self.x_start // 4, self.y_start // 4)

    def params(self) -> dict[str, Param]:
        """Return the parameters that bodies find both places by."""
        starts: dict[str, Param] = {"x_start": self.x_start, "y_start": self.y_start}
        return {**starts, **space_params(self.sizes, {"x": self.x, "y": self.y})}


class _Way(NamedTuple):
    """A body that copies a space, and what it needs: fields of Kernel; `width` is that of x."""

    body: str
    threads: Grid
    params: Mapping[str, Param]
    constants: Mapping[str, int]
    width: int = 1
    lanes: int = 1
    loops: int = 0


def _way(space: _Space) -> _Way:
    """Choose the body that copies a space.

    Words of four elements on both sides are quickest. Where x is dense along another dimension than y, four
    rows of four elements change places in registers; where only y lies in fours, the four are gathered, also
    across rows: elements of less than a word take longer to store than to find. What is left takes four
    elements of a row for each invocation: coordinates take longer than elements.
    """
    sizes, x, y, x_start, y_start = space
    in_fours = aligned(sizes, y) and y[-1] == 1 and y_start % 4 == 0
    if in_fours and aligned(sizes, x) and not splat(x) and x_start % 4 == 0:
        return _each("strided_copy", space.fours(), 4, 4)
    # Few elements take as long as their dispatch; what lies side by side is a view in loops (loop_memory.py)
    if size_of(sizes) < _FEW or (x, y, y_start) == ((1,), (1,), 0):
        return _each("strided_copy", space)
    turned = x.index(1) if 1 in x and x[-1] > 1 and y[-1] == 1 else None
    if turned is not None and in_fours and _by_fours_along(turned, space):
        return _tiles(space, turned, 4)
    if in_fours:
        step = x[-1]
        words = (*sizes[:-1], sizes[-1] // 4), (*x[:-1], 4 * step), by_fours(sizes, y)[1]
        way = _each("copy_fours", _Space(*words, x_start, y_start // 4), 1, 4)
        constants = {**way.constants, "ONE": int(step == 0)}
        return way._replace(params={**way.params, "step": step % 2**32}, constants=constants)
    if turned is not None and min(sizes[-1], sizes[turned]) >= 4:
        return _tiles(space, turned, 1)
    if y == dense(sizes) and y_start % 4 == size_of(sizes) % 4 == 0:
        way = _each("copy_words", space._replace(y_start=y_start // 4), 1, 4)
        count = size_of(sizes) // 4
        return way._replace(threads=flat_threads(count), params={**way.params, "count": count})
    apart = ceil_div(sizes[-1], 4)
    way = _each("copy_rows", space._replace(sizes=(*sizes[:-1], apart)))
    return way._replace(params={**way.params, "row": sizes[-1], "apart": apart}, loops=nested(4).iterations)


def _each(body: str, space: _Space, width: int = 1, lanes: int = 1) -> _Way:
    """Let an invocation copy each element of a space, or each word, by a body with lib/flat.wgsl."""
    count = size_of(space.sizes)
    params = {"count": count, **space.params()}
    return _Way(body, flat_threads(count), params, space_constants(space.sizes), width, lanes)


def _by_fours_along(dimension: int, space: _Space) -> bool:
    """Tell whether x, which is dense along a dimension, can be walked by fours there."""
    others = (step for d, step in enumerate(space.x) if d != dimension)
    return space.sizes[dimension] % 4 == space.x_start % 4 == 0 and all(step % 4 == 0 for step in others)


def _tiles(space: _Space, turned: int, unit: int) -> _Way:
    """Copy by tiles of 4 x 4 elements, of the turned and the innermost dimension.

    unit: what places count, 4 elements if all tiles are whole and lie in fours, else 1.
    """
    sizes, x, y, x_start, y_start = space
    others = [d for d in range(len(sizes) - 1) if d != turned]
    rows = _Space(
        (*(sizes[d] for d in others), ceil_div(sizes[turned], 4)),
        (*(x[d] // unit for d in others), 4 // unit),
        (*(y[d] // unit for d in others), 4 * y[turned] // unit),
        x_start // unit,
        y_start // unit,
    )
    columns, count = ceil_div(sizes[-1], 4), size_of(rows.sizes)
    threads, grid = tile_grid(columns, count)
    steps = {"x_step": x[-1] // unit, "y_step": y[turned] // unit}
    params = {"columns": columns, "rows": count, **steps, **grid, **rows.params()}
    constants = space_constants(rows.sizes)
    if unit == 4:
        return _Way("copy_tiles", threads, params, constants, 4, 4)
    params |= {"width": sizes[-1], "extent": sizes[turned]}
    return _Way("copy_ragged_tiles", threads, params, constants, loops=nested(4, 4).iterations)


def whole_copy(x: TensorType, reason: str) -> Kernel:
    """Make the kernel that copies the first input, of type x, to the result's beginning."""
    return strided_copy(Read("x", 0), (x.size,), (1,), (1,), reason=reason)


def filled(y: TensorType, value: float, reason: str, output: int | Scratch = 0) -> Kernel:
    """Make a kernel that sets every element of a result, or of a tensor for later kernels, to a number.

    y: its type.
    """
    lanes = vec_width(y.size)
    count = y.size // lanes
    return Kernel(
        body="unary",
        threads=flat_threads(count),
        reads=(Read("x", None),),
        writes=(Write(output=output, width=lanes),),
        params={"count": count, "value": number_param(y.dtype, value)},
        functions={"apply": Function(("x",), "T(p.value)")},
        lanes=lanes,
        reason=reason,
    )


def bordered(
    y: TensorType,
    space: list[tuple[int, int, int]],
    lanes: int,
    body: str,
    params: Mapping[str, Param],
    reason: str,
) -> Kernel:
    """Make a kernel for a result, of type y, that is an input with a border, or one moved around.

    space: for each merged dimension its size in the result, in the input, and the elements before; the
    innermost is divisible by `lanes`. `params` are the parameters of the body itself.
    """
    if lanes == 4:
        inner = space[-1]
        space = [*space[:-1], (inner[0] // 4, inner[1] // 4, inner[2] // 4)]
    sizes, extents, before = (tuple(column[k] for column in space) for k in range(3))
    kernel = Kernel(
        body=body,
        threads=flat_threads(size_of(sizes)),
        reads=(Read("x", 0, width=lanes, by_elements=True),),
        writes=(Write(width=lanes),),
        params={
            "count": size_of(sizes),
            **params,
            **space_params(sizes, {"x": dense(extents)}),
            **halves("before", before, 0),
            **halves("extent", extents, 1),
        },
        constants=space_constants(sizes),
        lanes=lanes,
        reason=reason,
    )
    return each(kernel, y)
