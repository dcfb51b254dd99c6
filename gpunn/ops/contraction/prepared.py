"""Products with a filter, made ready for many runs on the host."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeVar

import numpy as np

from gpunn.ops.call import Call
from gpunn.ops.compiled import RealLoops, real_loops
from gpunn.ops.compiled.capture import of_loops
from gpunn.ops.compiled.sharing import rows_divided
from gpunn.ops.contraction.blocks import Sums, Terms
from gpunn.ops.contraction.pieces import BIAS_ROW, Piece, Write, bias_adder, filter_matrix
from gpunn.ops.elementwise.activation import activating
from gpunn.ops.elementwise.gates import LOOPED
from gpunn.ops.elementwise.unary import ACTIVATIONS
from gpunn.ops.fixed_point.affine import CLAMPS
from gpunn.ops.memory import empty
from gpunn.ops.op import Prepare
from gpunn.types import Array, Shape

Made = TypeVar("Made")
Sum = Callable[[Array, Terms], Sums]  # makes the sums of a filter
Ends = tuple[np.float32, np.float32]
UNBOUNDED: Ends = (np.float32(-np.inf), np.float32(np.inf))


class InLoop(NamedTuple):
    """An activation that a loop applies to its sums: a clamp, or hard_swish."""

    ends: Ends = UNBOUNDED
    hard: int = 0


PLAIN = InLoop()

# Of a filter, a bias, and an activation
Whole = Callable[[RealLoops, Array, Array, InLoop], list[Piece] | None]


def constants_only(call: Call) -> bool:
    """Tell whether filter and bias are constants, so that all that follows from them can be kept."""
    return call.constant[1] and (not call.has(2) or call.constant[2])


def kept(call: Call, make: Callable[[Array, Array | None], Made]) -> Callable[[Array, Array | None], Made]:
    """Return what makes something of a filter and a bias, and keeps it for the next run of constants."""
    known: tuple[Array | None, Array | None, Made | None] = None, None, None

    def made(filter: Array, bias: Array | None) -> Made:
        nonlocal known
        of_filter, of_bias, found = known
        if found is not None and of_filter is filter and of_bias is bias:
            return found
        found = make(filter, bias)
        if constants_only(call):
            known = filter, bias, found
        return found

    return made


def integer_matrix(call: Call, filter: Array) -> Array:
    """Return the filter_matrix() of integers [O, K] for a result; for a single pixel as they lie."""
    pixels = math.prod(call.y.shape[:-1])
    return filter_matrix(filter, constants_only(call) and pixels > 1, pixels)


def prepared(bind: Callable[..., Callable[[Array], Array]]) -> Prepare:
    """Return Facets.prepare of an op that has Facets.bind: of x, filter and bias."""

    return lambda call: of_operands(call, partial(bind, call))


def of_operands(
    call: Call, make: Callable[[Array, Array | None], Callable[[Array], Array]]
) -> Callable[..., Array]:
    """Return the function of x, filter and bias by what makes one of x; it is kept for constants."""
    bound = kept(call, make)
    return lambda x, filter, bias=None: bound(filter, bias)(x)


def bound(
    call: Call,
    pieces: Callable[[Array], list[Piece]],
    filter: Array,
    bias: Array | None,
    whole: Whole | None = None,
) -> Callable[[Array], Array]:
    """Return a function of x for many runs of a call; `pieces` makes those of a filter.

    The function applies the activation of the call, too. whole: makes pieces of a compiled loop, which adds
    the bias and clamps the results.
    """
    shape, dtype, (write, only_loops) = call.y.shape, filter.dtype, _bound(call, pieces, filter, bias, whole)
    only_loops = only_loops and constants_only(call)  # else what loops read is made anew in each run

    def compute(x: Array) -> Array:
        result = empty(shape, dtype)
        write(x, result)
        return of_loops(result) if only_loops else result

    return compute


def _bound(
    call: Call,
    pieces: Callable[[Array], list[Piece]],
    filter: Array,
    bias: Array | None,
    whole: Whole | None,
) -> tuple[Write, bool]:
    """Return what writes a result, and whether it only calls loops."""
    activation, shape = call.attrs.get("activation"), call.y.shape
    ends, loops = clamp_ends(activation), real_loops() if filter.dtype == np.float32 else None
    plain = partial(finisher, bias, activation, filter.dtype, shape[-1])
    if loops is None:
        return _writing(pieces(filter), shape, plain), False
    numbers = np.zeros(shape[-1], np.float32) if bias is None else np.ascontiguousarray(bias)
    within = InLoop(hard=1) if activation == "hard_swish" else None if ends is None else InLoop(ends)
    made = None if whole is None else whole(loops, filter, numbers, within or PLAIN)
    if made is not None:
        left = activation if within is None else None
        fused = None if left is None else ACTIVATIONS[left].fused
        only_loops = left is None or (fused is not None and fused.write in LOOPED)
        only_loops = only_loops and all(piece.of_loops for piece in made)
        return _writing(made, shape, partial(finisher, None, left, filter.dtype, shape[-1])), only_loops
    finishing = plain if ends is None else partial(_in_loop, loops, numbers, ends)
    return _writing(pieces(filter), shape, finishing), False


def _in_loop(loops: RealLoops, bias: Array, ends: Ends, pixels: int) -> Callable[[Array], None]:
    """Return what adds a bias to sums of so many pixels in a loop, and clamps them."""
    parts = rows_divided(pixels, pixels * len(bias))
    return lambda part: loops.finish(parts, part, bias, *ends)


def finisher(
    bias: Array | None, activation: str | None, dtype: np.dtype[Any], channels: int, pixels: int
) -> Callable[[Array], None]:
    """Return what adds a bias [C] to sums [pixels, C], and applies an activation."""
    add = None if bias is None else bias_adder(bias, pixels)
    if activation is None:
        return add or (lambda part: None)
    if bias is not None and activation == "relu" and pixels * channels <= BIAS_ROW and dtype.kind == "f":
        rows, zeros = np.tile(bias, (pixels, 1)), np.zeros((pixels, channels), dtype)

        def add_and_clamp(part: Array) -> None:
            np.add(part, rows, out=part)
            np.maximum(part, zeros, out=part)

        return add_and_clamp
    activate = activating(activation, dtype, (pixels, channels))

    def finish(part: Array) -> None:
        if add is not None:
            add(part)
        found = activate(part)
        if found is not part:
            part[...] = found

    return finish


def _writing(
    pieces: Sequence[Piece], shape: Shape, finishing: Callable[[int], Callable[[Array], None]]
) -> Write:
    """Return what writes the pieces of a result; `finishing` makes what finishes one of so many pixels."""
    rows = math.prod(shape[:-1]), shape[-1]
    finish = {count: finishing(count) for count in {p.last - p.first for p in pieces}}
    steps = [(p.first, p.last, p.write, finish[p.last - p.first]) for p in pieces]
    if len(steps) == 1:
        ((_, _, write_all, finish_all),) = steps

        def write_one(x: Array, result: Array) -> None:
            pixels = result.reshape(rows)
            write_all(x, pixels)
            finish_all(pixels)

        return write_one

    def write(x: Array, result: Array) -> None:
        pixels = result.reshape(rows)
        for first, last, write, finish in steps:
            part = pixels[first:last]
            write(x, part)
            finish(part)

    return write


def clamp_ends(activation: str | None) -> Ends | None:
    """Return the least and the greatest result of an activation that is a clamp, or of none."""
    if activation is None:
        return UNBOUNDED
    if activation not in CLAMPS:
        return None
    low, high = CLAMPS[activation]
    return np.float32(-np.inf if low is None else low), np.float32(np.inf if high is None else high)
