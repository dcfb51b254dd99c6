"""Normalisation by mean and variance in two dispatches: these of parts of the elements, then the results.

The elements of a mean may lie in two runs, as those of a group of channels do (Wu and He 2018, Group
Normalization, section 3), and a few means of many elements have work for all of a GPU.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from gpunn.device import DeviceProperties
from gpunn.kernel import (
    Function,
    Kernel,
    Read,
    Scratch,
    Unsupported,
    Write,
    ceil_div,
    dims4,
    flat_threads,
    nested,
)
from gpunn.ops.call import Call
from gpunn.ops.kernels.cooperative import CooperativeGroup, cooperative_group, share_of
from gpunn.ops.kernels.strides import merge
from gpunn.types import DType, Shape, TensorType

_MOST_PARTS = 32  # of the elements of a mean: each invocation of the second dispatch puts them together
_MOST_LINES = 16  # V's of an invocation of the second dispatch
_MOST_EACH = 64  # neighbours of a group whose statistics each invocation puts together
_CORES = 8  # of a CPU, each of which computes a workgroup
_LEAST = 8  # V's of an invocation of the first dispatch, or more, in each part

# Elements of a column, from which on two dispatches take less time than one that loads them one by one: for
# 64 columns on lavapipe of Mesa 22.3 a fifth with 16,384 elements, 0.7 with 576, and as long with 256.
_LONG_COLUMN = 512


class Groups(NamedTuple):
    """A dense tensor as batch x outer x groups x inner elements, where outer and inner are of one mean."""

    batch: int
    outer: int
    groups: int
    inner: int

    @property
    def run(self) -> tuple[int, int] | None:
        """Return how many elements a mean has, and the distance between them; None if it varies."""
        if self.outer == 1:
            return self.inner, 1
        return (self.outer, self.groups) if self.inner == 1 else None


def groups_of(shape: Shape, axes: Sequence[int]) -> Groups | None:
    """Return a tensor as groups, with means along axes; None if other axes divide these more than once."""
    long = [(axis in axes, n) for axis, n in enumerate(shape) if n != 1]
    runs = [(along, math.prod(n for _, n in run)) for along, run in itertools.groupby(long, lambda n: n[0])]
    extents = []
    for along in (True, False, True, False):
        extents.append(runs.pop()[1] if runs and runs[-1][0] is along else 1)
    inner, groups, outer, batch = extents
    return None if runs else Groups(batch, outer, groups, inner)


def takes_two(device: DeviceProperties, groups: Groups) -> bool:
    """Tell whether two dispatches take less time than one, where a mean has one run of elements."""
    length, step = groups.run or (1, 1)
    if step != 1:
        return length >= _LONG_COLUMN and groups.groups % 4 == 0
    group = cooperative_group(groups.batch * groups.groups, length, device, few=True)
    return group.size > 1 if device.software else share_of(group, length, device) < length


class _Vectors(NamedTuple):
    """Groups of V's, which have `lanes` elements each, and `together` elements of one mean.

    each: how many neighbours of these groups are one in fact, whose statistics are put together at the end.
    """

    groups: Groups
    lanes: int
    together: int = 1
    each: int = 1


def in_two_dispatches(call: Call, groups: Groups) -> list[Kernel]:
    """Make the kernels of layer_normalization: shaders/moments.wgsl, then shaders/standardize.wgsl.

    Raises Unsupported for means of too many elements.
    """
    vectors = _in_vectors(groups, call.device)
    batch, outer, count, inner = vectors.groups
    group = cooperative_group(batch * count, outer * inner, call.device)
    share = _share(call.device, group, outer * inner)
    means = TensorType(DType.FLOAT32, (ceil_div(outer * inner, share), group.results, vectors.lanes))
    both = Scratch(means), Scratch(means)
    return [_measure(call, vectors, group, share, both), _standardize(call, vectors, share, both)]


def _in_vectors(groups: Groups, device: DeviceProperties) -> _Vectors:
    """Divide groups into V's of four elements, if that fits.

    On software, whose invocations load four elements in the time of one, these may be of several groups.
    """
    batch, outer, count, inner = groups
    if inner % 4 == 0:
        return _Vectors(Groups(batch, outer, count, inner // 4), 4, together=4)
    line = count * inner
    if line % 4 == 0 and (inner == 1 or (device.software and inner <= min(_MOST_EACH, outer))):
        return _Vectors(Groups(batch, outer, line // 4, 1), 4, each=inner)
    return _Vectors(groups, 1)


def _share(device: DeviceProperties, group: CooperativeGroup, terms: int) -> int:
    """Return how many of its terms a mean has in each part: parts until the device is occupied."""
    occupied = _CORES * group.size if device.software else device.parallel_invocations
    parts = min(max(occupied // (group.results * group.size), 1), _MOST_PARTS)
    share = min(terms, max(ceil_div(terms, parts), _LEAST * group.size))
    most = device.max_loop_iterations
    bound = terms if most is None else max(most // 2, 1) * group.size
    if ceil_div(terms, bound) > _MOST_PARTS:
        raise Unsupported(f"means of {terms} elements are over the device's limit of {most} loop iterations")
    return min(share, bound)


def _rest(terms: int, share: int) -> int:
    """Return how many terms the last part has."""
    return terms - (ceil_div(terms, share) - 1) * share


def _measure(
    call: Call, vectors: _Vectors, group: CooperativeGroup, share: int, to: Sequence[Scratch]
) -> Kernel:
    """Make the kernel of means and variances."""
    batch, outer, count, inner = vectors.groups
    parts, _, lanes = to[0].type.shape
    kept, kept_stride = merge((batch, count), (outer * count * inner, inner))
    reduced, reduced_stride = merge((outer, inner), (count * inner, 1))
    return Kernel(
        body="moments",
        threads=replace(group, results=group.results * parts).threads,
        workgroup=group.workgroup,
        any_width=group.size == 1,
        reads=(Read("x", 0, width=lanes),),
        writes=tuple(Write(name, o, lanes) for name, o in zip(("y", "y_squares"), to, strict=True)),
        params={
            "outputs": group.results,
            "parts": parts,
            "terms": outer * inner,
            "share": share,
            "part_share": 1 / share,
            "last_share": 1 / _rest(outer * inner, share),
            "kept": dims4(kept, 1),
            "kept_stride": dims4(kept_stride, 0),
            "reduced": dims4(reduced, 1),
            "reduced_stride": dims4(reduced_stride, 0),
        },
        constants={
            **group.constants,
            "CENTRED": int(call["centred"]),
            "TOGETHER": vectors.together,
            "ONE_RUN": int(len(reduced) <= 1),
        },
        functions={"combine": Function(("acc", "x"), "acc + x", ("acc", "acc"), "acc")},
        libraries=("by_fours" if lanes == 4 else "by_element",),
        lanes=lanes,
        loop_iterations=2 * ceil_div(share, group.size),
        reason=f"{group.reason}, of {parts} parts of the terms" if parts > 1 else group.reason,
    )


def _standardize(call: Call, vectors: _Vectors, share: int, found: Sequence[Scratch]) -> Kernel:
    """Make the kernel of the results, with means and variances that are found."""
    batch, outer, count, inner = vectors.groups
    parts, outputs, lanes = found[0].type.shape
    terms = outer * inner
    lines = max(1, min(_MOST_LINES, math.prod(vectors.groups) // call.device.parallel_invocations))
    if outer == 1:  # lines of a group that has all of its elements side by side
        outer = next(n for n in range(lines, 0, -1) if inner % n == 0)
        batch, count, inner = batch * count, 1, inner // outer
    line = count * inner
    span = ceil_div(outer, lines) * line
    rounds = ceil_div(outer * line, span)
    several = vectors.each > 1
    return Kernel(
        body="standardize",
        threads=flat_threads(batch * span),
        reads=(
            Read("x", 0, width=lanes),
            *(Read(name, o, width=lanes) for name, o in zip(("mean", "squares"), found, strict=True)),
        ),
        writes=(Write(width=lanes),),
        params={
            "outputs": outputs,
            "parts": parts,
            "each": vectors.each,
            "weight": share / (terms * vectors.each),
            "last_weight": _rest(terms, share) / share,
            "epsilon": float(call["epsilon"]),
            "batch": outer * line,
            "line": line,
            "group": vectors.each if several else inner,
            "span": span,
            "count": batch * span,
        },
        libraries=("several_groups" if several else "one_group",),
        lanes=lanes,
        loop_iterations=nested(parts, vectors.each).iterations + rounds,
        reason=f"{rounds * lanes} elements of each invocation",
    )
