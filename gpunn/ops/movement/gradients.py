"""The gradients of ops that move elements: each element's gradient goes back to where it came from."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import numpy as np

from gpunn.ops.check import expect_pairs
from gpunn.ops.gradient import Backward, Gradient, Symbol, by_operand, every_operand, passed, same_elements
from gpunn.types import Shape

Pairs = Sequence[tuple[int, int]]


def part(x: Symbol, begin: Sequence[int], end: Sequence[int]) -> Symbol:
    """Return the elements from `begin` to before `end` of each dimension."""
    if not any(begin) and tuple(end) == x.shape:
        return x
    return x.of("strided_slice", begin=tuple(begin), end=tuple(end), strides=(1,) * len(begin))


def _transpose(back: Backward) -> Symbol:
    return back.g.of("transpose", perm=tuple(int(d) for d in np.argsort(back["perm"])))


def strided_slice(taken: Callable[[Backward], list[range]]) -> Gradient:
    """Make the gradient of a slice; `taken` gives the indices selected in each dimension."""

    def gradient(back: Backward) -> list[Symbol | None]:
        ranges = taken(back)
        if not all(ranges):
            return [None]
        g = back.g.reshaped([len(r) for r in ranges])
        turned = [d for d, r in enumerate(ranges) if len(r) > 1 and r.step < 0]
        if turned:
            axes = Symbol(g.to, g.to.constant(np.array(turned, np.int32)))
            g = g.of("reverse", axes)
        ends = zip(back.x.shape, ((min(r[0], r[-1]), max(r[0], r[-1])) for r in ranges), strict=True)
        around = [(first, n - 1 - last) for n, (first, last) in ends]
        steps = tuple(abs(r.step) if len(r) > 1 else 1 for r in ranges)
        if set(steps) <= {1}:
            return [g.of("pad", paddings=tuple(around))]
        return [g.of("dilate", steps=steps, paddings=tuple(around))]

    return gradient


def _inside(g: Symbol, shape: Shape, paddings: Pairs) -> Symbol:
    begin = [before for before, _ in paddings]
    return part(g, begin, [b + n for b, n in zip(begin, shape, strict=True)])


def _pad(back: Backward) -> Symbol:
    return _inside(back.g, back.x.shape, expect_pairs(back.call, "paddings", back.call.x.rank))


def along(x: Symbol, axis: int, begin: int, end: int) -> Symbol:
    """Return the elements from `begin` to before `end` along an axis."""
    rank = len(x.shape)
    starts, ends = [0] * rank, list(x.shape)
    starts[axis], ends[axis] = begin, end
    return part(x, starts, ends)


def _concat(back: Backward, index: int) -> Symbol:
    axis = back["axis"] % back.call.x.rank
    starts = [0, *itertools.accumulate(t.shape[axis] for t in back.call.inputs if t is not None)]
    return along(back.g, axis, starts[index], starts[index + 1])


def _stack(back: Backward, index: int) -> Symbol:
    axis = back["axis"] % back.call.y.rank
    return along(back.g, axis, index, index + 1).reshaped(back.call.x.shape)


def joined(op: str) -> Gradient:
    """Make the gradient of an op with several results, which `op` joins along the attribute `axis`."""

    def gradient(back: Backward) -> list[Symbol | None]:
        known = next(g for g in back.gradients if g is not None)
        pairs = zip(back.gradients, back.results, strict=True)
        pieces = [known.constant(np.zeros(y.shape)) if g is None else g for g, y in pairs]
        return [pieces[0].of(op, *pieces[1:], axis=back["axis"])]

    return gradient


def _tile(back: Backward) -> Symbol:
    pairs = list(zip(back["multiples"], back.x.shape, strict=True))
    apart = back.g.reshaped([n for pair in pairs for n in pair])
    return apart.summed(range(0, 2 * len(pairs), 2))


def _mirror_pad(back: Backward) -> Symbol:
    """Turn what lies outside of each border, and add it inside, one dimension after the other."""
    g, edge = back.g, 0 if back["mode"] == "symmetric" else 1
    for d, (n, (before, after)) in enumerate(zip(back.x.shape, back["paddings"], strict=True)):
        inner = along(g, d, before, before + n)
        axis = Symbol(g.to, g.to.constant(np.array([d], np.int32)))
        for count, start, first in ((before, 0, edge), (after, before + n, n - edge - after)):
            if count:
                turned = along(g, d, start, start + count).of("reverse", axis)
                around = [(0, 0)] * len(g.shape)
                around[d] = (first, n - first - count)
                inner = inner + turned.of("pad", paddings=tuple(around))
        g = inner
    return g


def _roll(back: Backward) -> Symbol:
    return back.g.of("roll", shifts=tuple(-shift for shift in back["shifts"]))


def _fill(back: Backward) -> Symbol:
    return back.g.summed(range(len(back.g.shape))).reshaped(back.x.shape)


def _inverse(op: str, **names: str) -> Gradient:
    """Make the gradient of a permutation by the op that undoes it; `names`: its names of attributes."""

    def partial(back: Backward) -> Symbol:
        return back.g.of(op, **{names.get(name, name): value for name, value in back.call.attrs.items()})

    return by_operand(partial)


def _diagonals(g: Symbol) -> Symbol:
    """Return the diagonals of matrices [..., M, N]."""
    rows, columns = g.shape[-2:]
    count, batch = min(rows, columns), g.shape[:-2]
    square = along(along(g, len(batch), 0, count), len(batch) + 1, 0, count)
    return (square * g.constant(np.eye(count))).summed([len(batch) + 1])


def _without_diagonals(back: Backward) -> Symbol:
    rows, columns = back.x.shape[-2:]
    return back.g * back.g.constant(1 - np.eye(rows, columns))


RESHAPE = by_operand(same_elements)
TRANSPOSE = by_operand(_transpose)
PAD = by_operand(_pad)
CONCAT = every_operand(_concat)
STACK = every_operand(_stack)
TILE = by_operand(_tile)
BROADCAST = by_operand(passed)
MATRIX_DIAG = by_operand(lambda back: _diagonals(back.g))
MATRIX_SET_DIAG = by_operand(_without_diagonals, lambda back: _diagonals(back.g))
MIRROR_PAD = by_operand(_mirror_pad)
ROLL = by_operand(_roll)
FILL = by_operand(_fill)
DEPTH_TO_SPACE = _inverse("space_to_depth")
SPACE_TO_DEPTH = _inverse("depth_to_space")
BATCH_TO_SPACE = _inverse("space_to_batch_nd", crops="paddings")
SPACE_TO_BATCH = by_operand(
    lambda back: back.g.of("batch_to_space_nd", block_shape=back["block_shape"], crops=back["paddings"])
)
