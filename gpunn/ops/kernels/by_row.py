"""Updates of rows: the updates of each row of a result, in their order (shaders/lib/by_row.wgsl).

The row of an update may be computed in the run, and several updates may have the same row. So the updates are
sorted by row, stably, and each element of the result then walks the updates of its row. Floating-point sums
are in the order of the updates, without atomics. The cost is updates * (log(updates) + length of a row).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpunn.kernel import Function, Kernel, Pack, Read, Scratch, Write, flat_threads, spans, vec_width
from gpunn.ops.call import Call
from gpunn.ops.check import FLOATS
from gpunn.ops.kernels.sort import sorting
from gpunn.ops.kernels.strides import dense
from gpunn.types import Array, DType, Shape, TensorType

SEARCH = 100  # loop iterations, at most, of the search for the first update of a row
NOWHERE = 2**31 - 1  # the row of an update that names none, behind all others (find_rows.wgsl)


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

    def by_row(self, call: Call) -> tuple[list[Kernel], tuple[Read, Read]]:
        """Make kernels that find and sort the rows; return also how other kernels read them: by update, in
        order.
        """
        if call.constant[self.index]:
            args = (self.count, self.width, *self.extents)
            packs = {"row_of": Pack(_rows, args), "sorted": Pack(_order, args)}
            row_of, order = (
                Read(name, self.index, pack=pack, dtype=DType.INT32, nbytes=4 * self.count)
                for name, pack in packs.items()
            )
            return [], (row_of, order)
        type = TensorType(DType.INT32, (self.count,))
        rows = Scratch(type)
        kernels, places = sorting(Read("x", rows), type, 0) if self.count else ([], rows)
        return [self._find(rows), *kernels], (Read("row_of", rows), Read("sorted", places))

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
                    reads=(*order, start, Read("x", x, width=lanes)),
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


def _order(indices: Array | None, *args: int) -> Array:
    """Return the order of the rows that constant indices name."""
    return np.argsort(_rows(indices, *args), kind="stable").astype(np.int32)
