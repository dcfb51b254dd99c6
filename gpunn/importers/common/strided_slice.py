"""StridedSlice: what an operator that slices along each axis stands for, put together axis by axis."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpunn.graph.operation import Operand
from gpunn.importers.common.answers import PREVIOUS, Result, Step, Value, constant
from gpunn.importers.common.node import Node


class StridedSlice:
    """A collector of one entry for each axis of x, and of the shape that the result has with its new axes.

    `computed`: begins that are not constants, int32 or, if an operand, int64, as many as `entries`; each of
    them is an index, has no meaning, or has a value that is already known. A range is then taken in two
    steps: first all elements from its first to its last one, with the begin as an operand, then those that
    the stride meets.
    """

    def __init__(
        self, node: Node, x: Operand, offset: bool = False, computed: Value = None, entries: int = 0
    ) -> None:
        self.node, self.x, self.offset = node, x, offset
        self.computed, self.entries = computed, entries
        self.indexed: dict[int, int] = {}  # the axis that each computed begin belongs to
        self.behind: dict[int, int] = {}  # how far before its begin a range that goes backwards ends
        self.sizes = list(x.type.shape)  # of what is taken from these
        self.begin: list[int | None] = []
        self.end: list[int | None] = []
        self.strides: list[int] = []
        self.shrink: list[int] = []
        self.shape: list[int] = []
        self.reshaped = False

    def extent(self) -> int:
        """Return the extent of the next axis."""
        axis = len(self.begin)
        if axis >= self.x.type.rank:
            self.node.corrupt(f"has more slices than the {self.x.type.rank} axes of its input")
        return self.x.type.shape[axis]

    def skip(self, axes: int) -> None:
        """Append whole axes."""
        for _ in range(axes):
            self.slice(None, None, 1)

    def new_axis(self) -> None:
        """Append an axis of extent 1 that x does not have."""
        self.shape.append(1)
        self.reshaped = True

    def index(self, begin: int | None, entry: int) -> None:
        """Append one element; the axis is removed. Without a begin, this entry of the computed begins names
        it.
        """
        self.extent()
        if begin is None:
            self._at(entry, 1)
            begin = 0
        self.shrink.append(len(self.begin))
        self._append(begin, None, 1)

    def _at(self, entry: int, size: int) -> None:
        """Let an entry of the computed begins say where a slice of the next axis lies."""
        axis = len(self.begin)
        self.indexed[entry], self.sizes[axis] = axis, size

    def slice(self, begin: int | None, end: int | None, stride: int, entry: int | None = None) -> None:
        """Append a range with Python's meaning; with the option `offset`, the end counts from the begin."""
        extent = self.extent()
        if stride == 0:
            self.node.corrupt("a stride is 0")
        if self.offset and end is not None:
            end += slice(begin, None, stride).indices(extent)[0]
            end = None if end < 0 and stride < 0 else end
        found = range(*slice(begin, end, stride).indices(extent))
        self.shape.append(len(found))
        inside = begin is not None and found.start == begin + (extent if begin < 0 else 0)
        if self.computed is not None and entry is not None and inside:
            reach = max(len(found) - 1, 0) * abs(stride)
            self._at(entry, reach + 1 if found else 0)
            self.behind[entry] = reach if stride < 0 else 0
            begin = end = None
        self._append(begin, end, stride)

    def _append(self, begin: int | None, end: int | None, stride: int) -> None:
        self.begin.append(begin)
        self.end.append(end)
        self.strides.append(stride)

    def steps(self) -> Sequence[Step]:
        """Return the slice, and the reshape if there are new axes."""
        self.skip(self.x.type.rank - len(self.begin))
        attrs = {
            "begin": tuple(self.begin),
            "end": tuple(self.end),
            "strides": tuple(self.strides),
            "shrink_axes": tuple(self.shrink),
        }
        reshape = Step("reshape", (PREVIOUS,), {"shape": tuple(self.shape)})
        if not self.indexed or self.computed is None:
            cut = Step("strided_slice", (self.x,), attrs)
            return (cut, reshape) if self.reshaped else (cut,)
        kept = {**attrs, "shrink_axes": ()}  # the reshape takes these axes away
        kept["end"] = tuple(1 if d in self.shrink else e for d, e in enumerate(self.end))
        return *self._at_computed(self.computed), Step("strided_slice", (PREVIOUS,), kept), reshape

    def _at_computed(self, begins: Operand | Result) -> Sequence[Step]:
        """Slice at computed begins along their axes; keep all of the others."""
        attrs = {
            "sizes": tuple(self.sizes),
            "axes": tuple(self.indexed.get(entry) for entry in range(self.entries)),
            "clip": False,
            "negative": True,
        }
        if not any(self.behind.values()):
            return (Step("dynamic_slice", (self.x, begins), attrs),)
        dtype = begins.type.dtype.numpy if isinstance(begins, Operand) else np.int32
        offsets = np.array([self.behind.get(entry, 0) for entry in range(self.entries)], dtype)
        behind = constant(f"{self.node.origin}: from the end of each range to its begin", offsets)
        return Step("sub", (begins, behind)), Step("dynamic_slice", (self.x, PREVIOUS), attrs)
