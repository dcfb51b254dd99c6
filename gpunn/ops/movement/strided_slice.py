"""Slices with strides at fixed places: strided_slice."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from gpunn.kernel import Kernel, Read, size_of
from gpunn.ops.algebra import Algebra, same_shape
from gpunn.ops.axes import Axes, Space, each_axis, without
from gpunn.ops.call import Call
from gpunn.ops.check import expect_entries, expect_int, expect_ints
from gpunn.ops.compiled.capture import of_loops
from gpunn.ops.kernels.copies import strided_copy
from gpunn.ops.kernels.strides import dense, rows_walked
from gpunn.ops.memory import empty
from gpunn.ops.movement import gradients
from gpunn.ops.movement.host_rows import copies_of, copy_loop
from gpunn.ops.op import Op, op
from gpunn.rows import Rows
from gpunn.types import Array, DType, Shape, TensorType


def _shrunk(call: Call) -> list[int]:
    return [call.axis(axis, call.x.rank) for axis in expect_ints(call, "shrink_axes")]


def selection(call: Call) -> list[range]:
    """Return for each dimension of x the selected indices, in order."""
    shape, shrink = call.x.shape, _shrunk(call)
    bounds = []
    for attr in ("begin", "end"):
        entries = expect_entries(call, attr, len(shape))
        bounds.append([None if e is None else expect_int(call, attr, e) for e in entries])
    strides = expect_ints(call, "strides", len(shape))
    taken = []
    for d, (begin, end, step) in enumerate(zip(*bounds, strides, strict=True)):
        if step == 0:
            call.fail(f"strides must not be 0, got {list(strides)}")
        if d not in shrink:
            taken.append(range(*slice(begin, end, step).indices(shape[d])))
        elif begin is None or not -shape[d] <= begin < shape[d]:
            call.fail(f"begin[{d}] must be an index into shape {list(shape)}, got {begin}")
        else:
            taken.append(range(begin % shape[d], begin % shape[d] + 1))
    return taken


def _infer_strided_slice(call: Call) -> TensorType:
    shrink = _shrunk(call)
    return call.x.with_shape(tuple(len(r) for d, r in enumerate(selection(call)) if d not in shrink))


def _walked(call: Call) -> tuple[Shape, Shape, int]:
    """Return the extents of what is selected, its strides in x, and the place of its first element."""
    taken, steps = selection(call), dense(call.x.shape)
    sizes, pairs = tuple(map(len, taken)), [*zip(taken, steps, strict=True)]
    start = sum(r.start * step for r, step in pairs) if size_of(sizes) else 0
    return sizes, tuple(r.step * step for r, step in pairs), start


def _strided_slice_kernel(call: Call) -> Kernel:
    sizes, walk, start = _walked(call)
    return strided_copy(
        Read("x", 0), sizes, walk, dense(sizes), x_start=start, reason="in the result's order"
    )


def _sources(call: Call) -> list[Rows | None]:
    return [rows_walked(*_walked(call))]


def _forwards(call: Call) -> bool:
    """Tell whether a slice selects everything in order; one that walks backwards keeps only the shape."""
    return same_shape(call) and all(s > 0 for s in call["strides"])


_SLICES = {"begin": None, "end": None, "strides": 1}


def _kept(call: Call) -> Space:
    """Return the axes that x and a slice of it share."""
    rank = call.x.rank
    return Space((each_axis(rank),), (without(_shrunk(call), rank),))


def _index(attrs: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return what selects a slice of an array."""
    bounds = zip(attrs["begin"], attrs["end"], attrs["strides"], strict=True)
    index: list[Any] = [slice(*found) for found in bounds]
    for axis in attrs["shrink_axes"]:
        index[axis] = attrs["begin"][axis]
    return tuple(index)


def _prepare_strided_slice(call: Call) -> Callable[[Array], Array]:
    index, shape = _index(call.attrs), call.y.shape

    def compute(x: Array) -> Array:
        view = np.asarray(x[index])
        loop = copy_loop()
        if view.flags.c_contiguous:
            return of_loops(view) if loop is not None and view.size else view
        copies = None if loop is None or call.y.dtype is DType.STRING else copies_of(x, view)
        if loop is None or copies is None:
            return np.asarray(view, order="C")
        result = empty(shape, x.dtype)
        copies.bound(loop)(x, result)
        return of_loops(result)

    return compute


@op(
    _infer_strided_slice,
    _strided_slice_kernel,
    raw=True,
    strings=True,
    sources=_sources,
    algebra=Algebra(identity=_forwards, axes=Axes(space=_kept, axes=("shrink_axes",), each=_SLICES)),
    gradient=gradients.strided_slice(lambda back: selection(back.call)),
    prepare=_prepare_strided_slice,
)
def strided_slice(
    x: Array,
    *,
    begin: Sequence[int | None],
    end: Sequence[int | None],
    strides: Sequence[int],
    shrink_axes: Sequence[int] = (),
) -> Array:
    """Select x[begin:end:strides] in every dimension, as Python: None, negative and distant bounds included.

    The dimensions `shrink_axes` take the one index `begin` and are removed; `end` and `strides` have no
    meaning there. Raises ModelError for a stride of 0, for lists of another length than x's rank, and for an
    index outside of x. NNAPI 1.1 types.hal, OperationType::STRIDED_SLICE; TFLite schema, StridedSliceOptions.
    """
    attrs = {"begin": begin, "end": end, "strides": strides, "shrink_axes": shrink_axes}
    return np.asarray(x[_index(attrs)])


OPS: tuple[Op, ...] = (strided_slice,)
