"""Updates of rows: which of them each row of a result takes, in their order (shaders/lib/sorted.wgsl).

Which row that is may be computed in the run, and several updates may name one row. So their numbers are
sorted by row, stably, and then each element of the result walks those of its row. Floating point sums are in
the order of the updates, no atomics are needed, and the work is updates * (log(updates) + length of a row).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpunn.kernel import Function, Kernel, Pack, Read, Scratch, Write, flat_threads, vec_width
from gpunn.ops.op import Call
from gpunn.ops.strides import dense
from gpunn.types import Array, DType, Shape, TensorType

BLOCK = 256  # updates that a workgroup sorts
NOWHERE = 2**31 - 2  # the row of an update that names none, behind all others (sort_blocks.wgsl)


@dataclass(frozen=True, slots=True, kw_only=True)
class Updates:
    """`count` updates, each of a row that `width` numbers of input `index` name.

    The first of the numbers are the place of the row within `extents`; updates of places outside are left
    out.
    """

    index: int
    count: int
    width: int
    extents: Shape

    @property
    def reason(self) -> str:
        """Why kernels do what they do."""
        return f"each result walks its own of {self.count} updates, sorted by row"

    def by_row(self, call: Call) -> tuple[list[Kernel], Read]:
        """Kernels that sort the updates, and how others read them: pairs of a row and an update's number."""
        if call.constant[self.index]:
            pack = Pack(_by_row, (self.count, self.width, *self.extents))
            return [], Read("sorted", self.index, pack=pack, dtype=DType.INT32)
        pairs = TensorType(DType.INT32, (self.count, 2))
        source, spare = Scratch(pairs), Scratch(pairs)
        kernels = [self._blocks(source)]
        run = BLOCK
        while run < self.count:
            kernels.append(self._merge(source, spare, run))
            source, spare = spare, source
            run *= 2
        return kernels, Read("sorted", source)

    def joined(
        self, call: Call, x: int, join: Function, empty: Read, row: int, *, shared: bool = False
    ) -> list[Kernel]:
        """Kernels of a result whose rows are what updates `x`, rows of `row` elements, come to.

        They are joined one after the other, by a function of what there is, at first the one element of
        `empty`, and the next. `shared`: there is one row for all updates.
        """
        kernels, order = self.by_row(call)
        lanes = vec_width(row)
        count = call.y.size // lanes
        join_rows = Kernel(
            body="join_rows",
            threads=flat_threads(count),
            workgroup=(64, 1, 1),
            reads=(order, empty, Read("x", x, width=lanes)),
            writes=(Write(width=lanes),),
            params={
                "count": count,
                "row": row // lanes,
                "step": 0 if shared else row // lanes,
                "updates": self.count,
            },
            functions={"join": join},
            lanes=lanes,
            reason=self.reason,
        )
        return [*kernels, join_rows]

    def _blocks(self, target: Scratch) -> Kernel:
        return Kernel(
            body="sort_blocks",
            threads=flat_threads(self.count, BLOCK),
            workgroup=(BLOCK, 1, 1),
            reads=(
                Read("index", self.index),
                Read("extent", None, value=np.array(self.extents, np.int32)),
            ),
            writes=(Write("sorted", target),),
            params={"updates": self.count, "width": self.width, "depth": len(self.extents)},
            reason=f"updates sorted by row, {BLOCK} at a time",
        )

    def _merge(self, source: Scratch, target: Scratch, run: int) -> Kernel:
        return Kernel(
            body="merge_runs",
            threads=flat_threads(self.count),
            workgroup=(64, 1, 1),
            reads=(Read("sorted", source),),
            writes=(Write("merged", target),),
            params={"updates": self.count, "run": run},
            reason=f"sorted runs of {run} merged in pairs",
        )


def _by_row(indices: Array | None, count: int, width: int, *extents: int) -> Array:
    """The same for constant indices."""
    assert indices is not None
    places = indices.reshape(count, width)[:, : len(extents)].astype(np.int64)
    inside = ((places >= 0) & (places < extents)).all(axis=1)
    rows = np.where(inside, places @ np.array(dense(extents), np.int64), NOWHERE)
    order = np.argsort(rows, kind="stable")
    return np.stack([rows[order], order], axis=-1).astype(np.int32)
