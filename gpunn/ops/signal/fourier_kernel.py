"""Kernels of Fourier transforms along an axis, a dispatch for each pass (fourier.py)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from gpunn.kernel import Function, Kernel, Loop, Read, Scratch, Write, ceil_div, flat_threads
from gpunn.ops.signal.fourier import Transform, chirp, chirp_spectrum, roots
from gpunn.types import Array, DType, TensorType

_RADICES = 6  # stages of a pass at most: 3^6 and 3^5 * 4 are below MOST, 2 * 3^6 is not
_VECTORS = 256  # elements of a workgroup that short transforms share
_ELEMENT = 8  # bytes
_NUMBERS = {True: "C64(x, 0.0)", False: "x"}


@dataclass(frozen=True, slots=True)
class Rows:
    """The transforms of a tensor along one axis.

    count: of the transforms. valid: elements that are read, 0 beyond. length: from a row of the source to the
    next. used: rows that are read, of each `rows` of the source. inner: elements between neighbours along the
    axis. kept: elements of a result that are stored. real: the source has real numbers.
    """

    count: int
    valid: int
    length: int
    inner: int
    kept: int
    used: int = 1
    rows: int = 1
    real: bool = False


@dataclass(frozen=True, slots=True)
class _Scaling:
    """Factors on the elements of a transform, before it and after it; `reversed`: the order of its result."""

    first: Array | None = None
    last: Array | None = None
    reversed: bool = False


def along(rows: Rows, way: Transform, source: int | Scratch, target: int | Scratch) -> Iterator[Kernel]:
    """Make the kernels that transform rows from a source to a target."""
    if way.packed:
        yield _pass(rows, way.length // 2, 1, way.passes[0], (source, target), _Scaling(), packed=True)
        return
    if not way.chirp:
        yield from _passes(rows, way.length, way.passes, source, target, _Scaling())
        return
    size, turns = way.chirp, chirp(way.length)
    between = _scratch(rows, size)
    forth = _Scaling(turns, chirp_spectrum(way.length, size))
    yield from _passes(replace(rows, kept=size), size, way.passes, source, between, forth)
    back = Rows(rows.count, size, size, rows.inner, rows.kept)
    yield from _passes(back, size, way.passes, between, target, _Scaling(last=turns, reversed=True))


def _scratch(rows: Rows, length: int) -> Scratch:
    return Scratch(TensorType(DType.COMPLEX64, (rows.count // rows.inner, length, rows.inner)))


def _passes(
    rows: Rows,
    length: int,
    passes: tuple[tuple[int, ...], ...],
    source: int | Scratch,
    target: int | Scratch,
    scaling: _Scaling,
) -> Iterator[Kernel]:
    before = 1
    for number, radices in enumerate(passes):
        last = number == len(passes) - 1
        end = target if last else _scratch(rows, length)
        yield _pass(
            rows if last else replace(rows, kept=length),
            length,
            before,
            radices,
            (source, end),
            _Scaling(
                None if number else scaling.first,
                scaling.last if last else None,
                scaling.reversed and last,
            ),
        )
        before *= math.prod(radices)
        source = end
        rows = Rows(rows.count, length, length, rows.inner, rows.kept)


def _pass(
    rows: Rows,
    length: int,
    before: int,
    radices: tuple[int, ...],
    ends: tuple[int | Scratch, int | Scratch],
    scaling: _Scaling,
    packed: bool = False,
) -> Kernel:
    """Make the kernel of one pass; `before`: how long transforms are already; `packed`: of pairs of reals."""
    own = math.prod(radices)
    after = length // (own * before)
    vectors = rows.count * (length // own)
    shared = max(1, min(_VECTORS // own, vectors))
    size = shared * own
    workgroup = 64 if size <= 256 else 256
    tables = {
        "roots": roots(own),
        "twiddles": roots(2 * own) if packed else roots(own * before) if before > 1 else None,
        "factors": scaling.first,
        "products": scaling.last,
    }
    return Kernel(
        body="fourier",
        threads=flat_threads(ceil_div(vectors, shared) * workgroup, workgroup),
        workgroup=(workgroup, 1, 1),
        reads=(Read("x", ends[0]), *(Read(name, None, value=table) for name, table in tables.items())),
        writes=(Write(output=ends[1]),),
        params={
            "vectors": vectors,
            "inner": rows.inner,
            "before": before,
            "after": after,
            "valid": rows.valid,
            "length": rows.length,
            "used": rows.used,
            "rows": rows.rows,
            "kept": rows.kept,
            "whole": length,
        },
        constants={
            "LENGTH": own,
            "VECTORS": shared,
            "SIZE": size,
            "TWIDDLED": int(before > 1),
            "SCALED_IN": int(scaling.first is not None),
            "SCALED_OUT": int(scaling.last is not None),
            "REVERSED": int(scaling.reversed),
            "PACKED": int(packed),
            "PLAIN": int(rows.inner == before == after == 1),
            "CUT": int(rows.used != rows.rows),
            "ALONG_X": int(rows.inner == after == 1 and before == 1),
            "ALONG_Y": int(rows.inner == before == 1),
            "LAST": len(radices) % 2,
            **{f"R{k}": radices[k] if k < len(radices) else 1 for k in range(_RADICES)},
        },
        functions={"number": Function(("x",), _NUMBERS[rows.real], ("x",))},
        loop_iterations=_iterations(ceil_div(size + shared, workgroup), radices),
        workgroup_bytes=2 * _ELEMENT * size,
        reason=f"transforms of {length} numbers, by {' x '.join(map(str, radices)) or '1'}",
    )


def _iterations(rounds: int, radices: tuple[int, ...]) -> int:
    loops = (Loop(rounds), *(Loop(rounds, (Loop(r),)) for r in radices), Loop(rounds))
    return sum(loop.iterations for loop in loops)
