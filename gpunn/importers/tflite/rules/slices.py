"""Rules of the operators that read and write slices (a part of the table in table.py)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpunn.graph.operation import Operand
from gpunn.importers.common.answers import PREVIOUS, Result, Step, StepList, Steps, constant
from gpunn.importers.common.strided_slice import StridedSlice
from gpunn.importers.tflite.node import Node, Options


def cut(node: Node) -> Step:
    """Translate SLICE; a size of -1 reaches to the end. Computed begins are allowed with constant sizes."""
    x = node.operand(0)
    if node.operand(1).value is None:
        size = node.ints(2, "sizes", x.type.rank)
        if -1 not in size:
            return Step("dynamic_slice", (x, node.operand(1)), {"sizes": size, "clip": False})
    begin = node.ints(1, "begins", x.type.rank)
    size = node.ints(2, "sizes", x.type.rank)
    ends = tuple(n if s == -1 else b + s for n, b, s in zip(x.type.shape, begin, size, strict=True))
    for n, b, e in zip(x.type.shape, begin, ends, strict=True):
        if not 0 <= b <= e <= n:
            node.corrupt(f"begins {list(begin)} and sizes {list(size)} leave shape {list(x.type.shape)}")
    if node.operand(1).value is None:
        sizes = tuple(e - b for b, e in zip(begin, ends, strict=True))
        return Step("dynamic_slice", (x, node.operand(1)), {"sizes": sizes, "clip": False})
    return Step("strided_slice", (x,), {"begin": begin, "end": ends, "strides": (1,) * x.type.rank})


def list_write(node: Node) -> Steps:
    """Translate what sets row i of a list (LIST_WRITE), from [i, -1, ...], the row, and [i + 1, 0, ...].

    The list must have that row, as both SLICEs demand. Where there are several rows in place of one, the
    shape of the result depends on i.
    """
    x, size, row, begin = (node.operand(k) for k in range(4))
    rank, steps = x.type.rank, StepList()
    if size.type.shape != (rank,) or begin.type.shape != (rank,):
        node.corrupt(f"has sizes {size.type} and begins {begin.type} for {x.type}")
    if row.type == x.type.with_shape((1, *x.type.shape[1:])):
        along = constant("along the list", np.eye(1, rank, dtype=size.type.dtype.numpy)[0])
        starts = steps.add("mul", (size, along))
        return steps.answer(steps.add("dynamic_update_slice", (x, row, starts), {"clip": False}))
    (count, *_), (following, *_) = node.ints(1, "sizes", rank), node.ints(3, "begins", rank)
    rows = x.type.shape[0]
    if not 0 <= count < following <= rows:
        node.corrupt(f"cuts {x.type} at {count} and {following}")
    before, behind = (_rows(x, *ends) for ends in ((0, count), (following, rows)))
    first, last = (steps.add(s.op, s.inputs, s.attrs) for s in (before, behind))
    return steps.answer(steps.add("concat", (first, row, last), {"axis": 0}))


def _rows(x: Operand, begin: int, end: int) -> Step:
    others = x.type.shape[1:]
    ends = {"begin": (begin, *(0 for _ in others)), "end": (end, *others)}
    return Step("strided_slice", (x,), {**ends, "strides": (1,) * x.type.rank})


def strided_slice(node: Node) -> Sequence[Step]:
    """Translate STRIDED_SLICE: masks become None, an ellipsis the axes it stands for, new axes a reshape.

    Begins may be computed where each of them names one element or says nothing, and so may ends. Elsewhere
    their values decide on shapes; the begin of a range that goes forwards decides on nothing else.
    """
    x, options = node.operand(0), node.options("StridedSliceOptions")
    masks = _Masks(options, node.expect_ints(1, "begins"))
    begin = _numbers(node, 1, "begins", masks.begins)
    end = _numbers(node, 2, "ends", masks.ends)
    strides = node.ints(3, "strides", masks.count)
    computed = node.operand(1) if node.operand(1).value is None else None
    spec = StridedSlice(node, x, options.get("Offset"), computed, masks.count)
    for i, stride in enumerate(strides):
        if masks.ellipsis[i]:
            spec.skip(x.type.rank - masks.covered)
        elif masks.new_axis[i]:
            spec.new_axis()
        elif masks.shrink[i]:
            spec.index(0 if masks.begin[i] else None if computed else begin[i], i)
        else:
            spec.slice(begin[i] if masks.begins[i] else None, end[i] if masks.ends[i] else None, stride, i)
    return spec.steps()


def _numbers(node: Node, index: int, what: str, used: Sequence[bool]) -> tuple[int, ...]:
    """Return the integers of input `index`; none if they are computed and shapes use none of those `used`."""
    if node.operand(index).value is None and not any(used):
        node.expect_ints(index, what, len(used))
        return ()
    return node.ints(index, what, len(used))


class _Masks:
    """The bits of STRIDED_SLICE's masks for each entry.

    `begins` and `ends`: the entries whose begin and whose end bound a range.
    """

    def __init__(self, options: Options, count: int) -> None:
        def bits(name: str) -> list[bool]:
            mask = options.get(f"{name}Mask")
            return [bool(mask >> i & 1) for i in range(count)]

        self.count, self.begin, end = count, bits("Begin"), bits("End")
        self.ellipsis, self.new_axis, self.shrink = bits("Ellipsis"), bits("NewAxis"), bits("ShrinkAxis")
        ranges = [not any(e) for e in zip(self.ellipsis, self.new_axis, self.shrink, strict=True)]
        self.begins = [r and not masked for r, masked in zip(ranges, self.begin, strict=True)]
        self.ends = [r and not masked for r, masked in zip(ranges, end, strict=True)]
        self.covered = sum(not n and not e for n, e in zip(self.new_axis, self.ellipsis, strict=True))


def reverse(node: Node) -> Step:
    """Translate REVERSE_V2: along constant axes, a slice with strides of -1 there."""
    x = node.operand(0)
    if node.operand(1).value is None:
        node.expect_ints(1, "axes")
        return Step("reverse", (x, node.operand(1)))
    axes = node.ints(1, "axes")
    rank = x.type.rank
    if not all(-rank <= axis < rank for axis in axes):
        node.corrupt(f"axes {list(axes)} are out of range for rank {rank}")
    turned = {axis % rank for axis in axes}
    whole = (None,) * rank
    strides = tuple(-1 if d in turned else 1 for d in range(rank))
    return Step("strided_slice", (x,), {"begin": whole, "end": whole, "strides": strides})


def dynamic_slice(node: Node) -> Step | Sequence[Step]:
    """Translate STABLEHLO_DYNAMIC_SLICE; its start is an input, and moves so that the slice fits."""
    x, sizes = node.operand(0), node.options("StablehloDynamicSliceOptions").ints("SliceSizes")
    if len(sizes) != x.type.rank or len(node.inputs) != 1 + x.type.rank:
        node.corrupt(f"has {len(node.inputs) - 1} starts and {len(sizes)} sizes for {x.type}")
    room = [n - size for n, size in zip(x.type.shape, sizes, strict=True)]
    if any(not 0 <= r <= n for r, n in zip(room, x.type.shape, strict=True)):
        node.corrupt(f"a slice of {list(sizes)} does not fit {x.type}")
    if any(node.operand(1 + d).value is None for d in range(x.type.rank)):
        for d in range(x.type.rank):
            node.expect_ints(1 + d, "starts", 1)
        return [
            Step("stack", node.inputs[1:], {"axis": 0}),
            Step("reshape", (PREVIOUS,), {"shape": (x.type.rank,)}),
            Step("dynamic_slice", (x, PREVIOUS), {"sizes": sizes}),
        ]
    starts = [node.ints(1 + d, "starts", 1)[0] for d in range(x.type.rank)]
    begin = [min(max(s, 0), r) for s, r in zip(starts, room, strict=True)]
    ends = tuple(b + n for b, n in zip(begin, sizes, strict=True))
    attrs = {"begin": tuple(begin), "end": ends, "strides": (1,) * x.type.rank}
    return Step("strided_slice", (x,), attrs)


def dynamic_update_slice(node: Node) -> Steps:
    """Translate STABLEHLO_DYNAMIC_UPDATE_SLICE: a start for each dimension is an input of its own."""
    starts = Step("stack", node.inputs[2:], {"axis": 0})
    return Steps(
        (starts, Step("dynamic_update_slice", (node.operand(0), node.operand(1), Result(0)))), (Result(1),)
    )


def take(node: Node) -> Step:
    """Translate STABLEHLO_SLICE from starts to limits by strides over 0."""
    x, options = node.operand(0), node.options("StablehloSliceOptions")
    begin, end = options.ints("StartIndices"), options.ints("LimitIndices")
    strides = options.ints("Strides") or (1,) * x.type.rank
    if {len(begin), len(end), len(strides)} != {x.type.rank} or min(strides, default=1) < 1:
        node.corrupt(f"cuts {list(begin)} ... {list(end)} by {list(strides)} of {x.type}")
    if not all(0 <= b <= e <= n for b, e, n in zip(begin, end, x.type.shape, strict=True)):
        node.corrupt(f"cuts {list(begin)} ... {list(end)} of {x.type}")
    return Step("strided_slice", (x,), {"begin": begin, "end": end, "strides": strides})
