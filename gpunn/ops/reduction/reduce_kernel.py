"""Kernels of reductions: what each result folds, by cooperative groups, in parts if there are many terms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from gpunn.kernel import (
    Function,
    Kernel,
    Kernels,
    Read,
    Scratch,
    Unsupported,
    Write,
    ceil_div,
    dims4,
    size_of,
    spans,
)
from gpunn.ops.call import Call
from gpunn.ops.check import QUANTIZED
from gpunn.ops.kernels.cooperative import CooperativeGroup, cooperative_group, in_groups, share_of
from gpunn.ops.kernels.copies import number_param
from gpunn.ops.kernels.strides import aligned, by_fours, dense, merge
from gpunn.ops.reduction.reduce_integer import Folding, reduced_axes
from gpunn.types import DType, Shape, TensorType

Spaces = tuple[Shape, ...]  # sizes, then strides
# The dtype of partial results, where it is not that of the results.
_PARTIAL = {DType.FLOAT16: DType.FLOAT32, **dict.fromkeys((*QUANTIZED, DType.BOOL), DType.INT32)}
_FEW = 4096  # outputs (vectors): below it, one invocation each leaves a GPU idle


def spaces(call: Call) -> tuple[int, Spaces, Spaces]:
    """Return lanes, then sizes and strides of the kept and of the reduced dimensions, both merged.

    x is dense, so neighbours of one kind merge and at most half of them are left of each kind.
    """
    shape, steps = call.x.shape, dense(call.x.shape)
    axes = reduced_axes(call)
    inside = [d for d in range(len(shape)) if d in axes]
    outside = [d for d in range(len(shape)) if d not in axes]
    kept = merge(tuple(shape[d] for d in outside), tuple(steps[d] for d in outside))
    reduced = merge(tuple(shape[d] for d in inside), tuple(steps[d] for d in inside))
    if max(len(kept[0]), len(reduced[0])) > 4:
        raise Unsupported("kept and reduced dimensions alternate more than four times")
    if aligned(*kept):
        return 4, by_fours(*kept), (reduced[0], tuple(step // 4 for step in reduced[1]))
    return 1, kept, reduced


def reduction(call: Call, how: Folding) -> Kernels:
    """Return the ways to compute a reduction."""
    lanes, kept, reduced = spaces(call)
    if how.ordered:
        return _in_order(call, how, lanes, kept, reduced)
    outputs, terms = size_of(kept[0]), size_of(reduced[0])
    kernels = partial(_by_group, call, how, lanes, kept, reduced)
    return in_groups(_group(call, outputs, reduced), terms, kernels)


def _by_group(
    call: Call, how: Folding, lanes: int, kept: Spaces, reduced: Spaces, group: CooperativeGroup
) -> Sequence[Kernel]:
    """Make the kernels of a reduction: one, or one for parts of the terms and one that joins the parts."""
    outputs, terms = size_of(kept[0]), size_of(reduced[0])
    share = share_of(group, terms, call.device, how.most)
    parts = ceil_div(terms, share)
    if parts == 1:
        return [_folding(call, how, lanes, kept, reduced, group)]
    stored = how.accumulator or _PARTIAL.get(call.y.dtype, call.y.dtype)
    between = Scratch(TensorType(stored, (parts, outputs, lanes)))
    first = Folding(how.initial, how.fold, enter=how.enter, accumulator=how.accumulator)
    last = how.last or replace(how, enter="x")
    joined = (parts,), (outputs,)
    join = CooperativeGroup(outputs, 1) if last.ordered else _group(call, outputs, joined)
    return [
        _folding(call, first, lanes, kept, reduced, group, share, target=between),
        _folding(call, last, lanes, ((outputs,), (1,)), joined, join, source=between),
    ]


def _in_order(call: Call, how: Folding, lanes: int, kept: Spaces, reduced: Spaces) -> Sequence[Kernel]:
    """Make kernels that fold terms one after the other, each as many as the device's loops take."""
    outputs, terms = size_of(kept[0]), size_of(reduced[0])
    kernels: list[Kernel] = []
    before: Scratch | None = None
    for span in spans(terms, call.device.max_loop_iterations):
        after = Scratch(TensorType(_PARTIAL.get(call.y.dtype, call.y.dtype), (outputs, lanes)))
        last = span.stop == terms
        part = how if last else replace(how, finish="acc")
        alone = CooperativeGroup(outputs, 1)
        kernel = _folding(call, part, lanes, kept, reduced, alone, target=0 if last else after)
        reads = (*kernel.reads[:-1], Read("before", before, width=lanes))
        resume = _resume("acc" if before is None else "before")
        kernels.append(
            replace(
                kernel,
                reads=reads,
                params={**kernel.params, "first": span.start, "terms": span.stop},
                functions={**kernel.functions, "resume": resume},
                loop_iterations=len(span),
            )
        )
        before = after
    return kernels


def _resume(value: str) -> Function:
    """Make the function that chooses the accumulator to begin with: `acc`, or what was folded `before`."""
    return Function(("acc", "before"), value, ("acc", "before"), "acc")


def _group(call: Call, outputs: int, reduced: Spaces) -> CooperativeGroup:
    """Choose the invocations that share a result."""
    group = cooperative_group(outputs, size_of(reduced[0]), call.device, parted=True)
    shared = outputs < _FEW or reduced[1][-1:] == (1,)
    return group if shared else replace(group, size=1)


def _folding(
    call: Call,
    how: Folding,
    lanes: int,
    kept: Spaces,
    reduced: Spaces,
    group: CooperativeGroup,
    share: int = 0,
    source: int | Scratch = 0,
    target: int | Scratch = 0,
) -> Kernel:
    """Make a kernel that folds terms, or parts of `share` terms each, whose results it writes in order."""
    outputs, terms = size_of(kept[0]), size_of(reduced[0])
    share = share or max(terms, 1)
    parts = max(ceil_div(terms, share), 1)
    group = replace(group, results=outputs * parts)
    x = source.type.dtype if isinstance(source, Scratch) else call.x.dtype
    return Kernel(
        body="reduce",
        threads=group.threads,
        workgroup=group.workgroup,
        any_width=group.size == 1,
        reads=(Read("x", source, width=lanes, by_elements=True), *how.tables, Read("before", None)),
        writes=(Write(output=target, width=lanes),),
        params={
            "outputs": outputs,
            "parts": parts,
            "count": size_of(spaces(call)[2][0]),
            "first": 0,
            "terms": terms,
            "share": share,
            "initial": number_param(x, how.initial),
            "kept": dims4(kept[0], 1),
            "kept_stride": dims4(kept[1], 0),
            "reduced": dims4(reduced[0], 1),
            "reduced_stride": dims4(reduced[1], 0),
            **how.params,
        },
        constants={**group.constants, "ONE_RUN": int(len(reduced[0]) <= 1), **how.constants},
        functions={
            "start": Function((), "T_x(p.initial)", (), "x"),
            "resume": _resume("acc"),
            "enter": Function(("x",), how.enter, ("x",), "acc"),
            "combine": Function(("acc", "x"), how.fold, ("acc", "acc"), "acc"),
            "finish": Function(("acc", "place"), how.finish, ("acc", "")),
        },
        libraries=how.libraries,
        lanes=lanes,
        accumulator=how.accumulator,
        loop_iterations=ceil_div(min(share, terms), group.size),
        reason=group.reason if parts == 1 else f"{group.reason}, of {parts} parts of the terms",
    )
