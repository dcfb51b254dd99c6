"""Updates of rows: the updates of each row of a result, in their order (shaders/lib/by_row.wgsl).

The row of an update may be computed in the run, and several updates may have the same row. So the updates are
sorted by row, stably, and each element of the result then walks the updates of its row. Floating-point sums
are in the order of the updates, without atomics. The cost is updates * (log(updates) + length of a row), and
for each element of the result a search for the first update of its row, or a look into a list of all rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from gpunn.kernel import Function, Kernel, Pack, Read, Scratch, Write, flat_threads, size_of, spans, vec_width
from gpunn.ops.call import Call
from gpunn.ops.check import FLOATS
from gpunn.ops.kernels.copies import filled
from gpunn.ops.kernels.sort import Sorted, sorting
from gpunn.ops.kernels.strides import dense
from gpunn.types import Array, DType, Shape, TensorType

SEARCH = 100  # loop iterations, at most, of the search for the first update of a row
MANY_ROWS, MOST_ROWS = 1 << 12, 1 << 24  # between these there is a list of their first updates, else a search
NOWHERE = 2**31 - 1  # the row of an update that names none, behind all others (find_rows.wgsl)


class Order(NamedTuple):
    """Sorted updates as kernels read them: operands and libraries for lib/by_row.wgsl."""

    reads: tuple[Read, ...]
    libraries: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Updates:
    """`count` updates; `width` numbers of input `index` name the row of each.

    The first of these numbers are the place of the row within `extents`; updates of places outside are left
    out.
    """

    index: int
    count: int
    width: int
    extents: Shape

    @property
    def reason(self) -> str:
        """Return the reason for `gpunn inspect`."""
        return f"each result walks its own of {self.count} updates, sorted by row"

    @property
    def rows(self) -> int:
        """Count the rows that updates may name."""
        return size_of(self.extents)

    def by_row(self, call: Call) -> tuple[list[Kernel], Order]:
        """Make kernels that find and sort the rows; return also how other kernels read them."""
        listed = MANY_ROWS <= self.rows <= MOST_ROWS
        libraries = ("row_begins" if listed else "row_search",)
        if call.constant[self.index]:
            args = (self.count, self.width, *self.extents)
            packs = {"keys": (_keys, self.count), "sorted": (_order, self.count)}
            packs |= {"begins": (_begins, self.rows)} if listed else {}
            packed = (
                Read(name, self.index, pack=Pack(pack, args), dtype=DType.INT32, nbytes=4 * count)
                for name, (pack, count) in packs.items()
            )
            return [], Order(tuple(packed), libraries)
        rows = Scratch(TensorType(DType.INT32, (self.count,)))
        kernels, found = [self._find(rows)], Sorted(rows, rows, 0)
        if self.count:
            sort, found = sorting(Read("x", rows), rows.type, 0, call.device)
            kernels += sort
        reads = (Read("keys", found.keys), Read("sorted", found.places))
        if not listed:
            return kernels, Order(reads, libraries)
        begins = Scratch(TensorType(DType.INT32, (self.rows,)))
        kernels.append(filled(begins.type, self.count, "rows without updates", begins))
        kernels.append(
            Kernel(
                body="row_begins",
                threads=flat_threads(self.count),
                reads=(Read("keys", found.keys),),
                writes=(Write("begins", begins),),
                params={"count": self.count, "rows": self.rows},
                reason="the first update of each row",
            )
        )
        return kernels, Order((*reads, Read("begins", begins)), libraries)

    def joined(
        self, call: Call, x: int, join: Function, empty: Read, row: int, *, shared: bool = False
    ) -> list[Kernel]:
        """Make kernels of a result whose rows combine the updates `x`, rows of `row` elements.

        A function combines them one after the other: it gets the value so far, at first the one element of
        `empty`, a Read of the name start, and the next update. `shared`: there is one row for all updates.
        """
        kernels, order = self.by_row(call)
        lanes = vec_width(row)
        count = call.y.size // lanes
        partial = DType.FLOAT32 if call.y.dtype in FLOATS else call.y.dtype
        start = empty
        limit = call.device.max_loop_iterations
        parts = spans(self.count, None if limit is None else limit - SEARCH)
        for part in parts:
            last = part is parts[-1]
            target = 0 if last else Scratch(TensorType(partial, call.y.shape))
            kernels.append(
                Kernel(
                    body="join_rows",
                    threads=flat_threads(count),
                    reads=(*order.reads, start, Read("x", x, width=lanes)),
                    writes=(Write(output=target, width=lanes),),
                    params={
                        "count": count,
                        "row": row // lanes,
                        "step": 0 if shared else row // lanes,
                        "updates": self.count,
                        "first": part.start,
                        "most": len(part),
                    },
                    constants={"FIRST": int(part.start == 0)},
                    functions={"join": join},
                    libraries=order.libraries,
                    lanes=lanes,
                    loop_iterations=SEARCH + len(part),
                    reason=self.reason,
                )
            )
            start = Read("start", None if last else target, width=lanes)
        return kernels

    def _find(self, rows: Scratch) -> Kernel:
        return Kernel(
            body="find_rows",
            threads=flat_threads(self.count),
            reads=(
                Read("index", self.index),
                Read("extent", None, value=np.array(self.extents, np.int32)),
            ),
            writes=(Write("row_of", rows),),
            params={"count": self.count, "width": self.width, "depth": len(self.extents)},
            reason="the row that each update names",
        )


def _rows(indices: Array | None, count: int, width: int, *extents: int) -> Array:
    """Return the rows that constant indices name."""
    assert indices is not None
    places = indices.reshape(count, width)[:, : len(extents)].astype(np.int64)
    inside = ((places >= 0) & (places < extents)).all(axis=1)
    rows = places @ np.array(dense(extents), np.int64)
    return np.where(inside, rows, NOWHERE).astype(np.int32)


def _keys(indices: Array | None, *args: int) -> Array:
    """Return the rows that constant indices name, in order, as shaders/lib/order.wgsl makes keys of them."""
    return ~np.sort(_rows(indices, *args))


def _begins(indices: Array | None, *args: int) -> Array:
    """Return the number of the first sorted update of each row that constant indices may name."""
    return np.searchsorted(np.sort(_rows(indices, *args)), np.arange(size_of(args[2:]))).astype(np.int32)


def _order(indices: Array | None, *args: int) -> Array:
    """Return the order of the rows that constant indices name."""
    return np.argsort(_rows(indices, *args), kind="stable").astype(np.int32)
