"""Loops as machine code, by numba (extra `fast-cpu`), for runs that shall stay fast.

The references never use them: they are for programs of the CPU backend, after use(). numba keeps what it
compiles beside the modules of the loops, or in its cache folder of the user; the first time takes some
seconds, later ones some tenths.
"""

from __future__ import annotations

import importlib.util
import warnings
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache, partial
from pathlib import Path
from types import FunctionType
from typing import Any, NamedTuple

from gpunn.ops.compiled import channel_products, dot_products, loops, rows, vectors
from gpunn.ops.compiled.vectors import Sizes, teach_numba, vector_sizes

TOGETHER = 512  # elements of several pixels that a loop takes at a time, so that starting it costs little

Loop = Callable[..., None]


class OfBytes(NamedTuple):
    """Loops over bytes, for a CPU with instructions for them; `sizes` are those of its vectors."""

    dot_products: Loop
    channel_products: Loop
    sizes: Sizes


class Loops(NamedTuple):
    """The functions of loops.py, compiled for float32 and for stored integers of 8 bits, and those of bytes.

    of_bytes: None where the CPU has no instructions for them.
    """

    finish: Loop
    requantize: Loop
    floors: Loop
    lines: Loop
    look_up: Loop
    pair_sums: Loop
    depthwise: Loop
    of_bytes: OfBytes | None


@cache
def load() -> Loops | None:
    """Compile the loops, or load what has been compiled; None if numba is not installed.

    Warns, and returns None, if numba is installed but does not go with what else is.
    """
    if importlib.util.find_spec("numba") is None:
        return None
    try:
        import numba
        from numba.core.registry import cpu_target
        from numba.extending import register_jitable
    except ImportError as error:  # numba refuses versions of numpy that it does not know
        warnings.warn(f"numba cannot be used, so loops run in numpy: {error}", RuntimeWarning, stacklevel=2)
        return None

    types: Any = numba.types  # parts of it have no annotations

    def given(dtype: Any, rank: int = 1) -> Any:
        return types.Array(dtype, rank, "C", readonly=True)

    def compiled(function: Loop, *signatures: Any) -> Any:
        try:
            return numba.njit([*signatures], nogil=True, error_model="numpy", cache=True)(function)
        except RuntimeError:  # there is no folder that it may keep the code in
            return numba.njit([*signatures], nogil=True, error_model="numpy")(function)

    def line(real: Any) -> tuple[Any, ...]:
        return given(real), given(real), types.UniTuple(real, 2), types.int64

    for part in (*loops.PARTS, dot_products.sum_of_bytes):
        register_jitable(part)
    f32, f64, i64, whole = types.float32, types.float64, types.int64, given(types.int64)
    geometry = types.UniTuple(i64, 15)
    steps = (whole, whole, whole, whole, whole, types.UniTuple(i64, 3))
    stored = (types.int8, types.uint8)
    added = types.UniTuple(f32, 3), types.UniTuple(f32, 2), i64
    *_, features = cpu_target.target_context.codegen().magic_tuple()  # those that numba compiles for
    sizes, of_bytes = vector_sizes(features), None
    if sizes is not None:
        teach_numba(dot_products.tile, dot_products.tile_code(sizes.pixels), sizes.lanes)
        teach_numba(channel_products.strip, channel_products.strip_code, sizes.lanes)

        def signatures(w: Any, shape: int) -> list[Any]:
            return [
                (
                    *(given(types.uint8), whole, whole, w, given(types.int32), given(real, 2)),
                    *(types.UniTuple(i64, shape), types.UniTuple(real, 2), types.Array(s, 2, "C")),
                )
                for real in (f64, f32)
                for s in stored
            ]

        of_bytes = OfBytes(
            compiled(named(dot_products.dot_products), *signatures(given(types.int8), 5)),
            compiled(named(channel_products.channel_products), *signatures(given(types.int32, 2), 2)),
            sizes,
        )
    lanes = rows.LANES if sizes is None else sizes.lanes
    teach_numba(rows.lines_of_vector, rows.lines_code, lanes)
    if rows.TABLES in features.split(","):
        teach_numba(rows.look_up_vector, rows.look_up_code, lanes)
    else:
        register_jitable(rows.look_up_vector)
    flat, byte = types.Array(types.uint8, 1, "C"), given(types.uint8)
    of_tables = byte, byte, flat
    ends = types.UniTuple(f32, 2), i64
    of_lines = i64, given(types.uint8, 2), given(f32, 2), *ends, types.Array(types.uint8, 2, "C")
    return Loops(
        compiled(loops.finish, (types.Array(f32, 2, "C"), given(f32), f32, f32)),
        compiled(loops.requantize, *((given(f32, 2), *steps, types.Array(s, 2, "C")) for s in stored)),
        compiled(
            loops.floors,
            *((given(f32, 2), *line(r), types.Array(s, 2, "C")) for r in (f64, f32) for s in stored),
        ),
        partial(compiled(named(rows.lines), of_lines), lanes),
        compiled(named(rows.look_up), of_tables),
        compiled(loops.pair_sums, *((given(s), given(s), *added, types.Array(s, 1, "C")) for s in stored)),
        compiled(
            loops.depthwise,
            (given(f32), given(f32), given(f32), f32, f32, geometry, types.Array(f32, 1, "C")),
        ),
        of_bytes,
    )


def named(function: Loop) -> Loop:
    """Return a function whose name tells of the code in vectors.py.

    numba keeps machine code by the name of a function and the date of its file.
    """
    code: Any = function
    digest = zlib.crc32(Path(vectors.__file__).read_bytes())
    copy = FunctionType(code.__code__, code.__globals__, code.__name__)
    copy.__qualname__ = f"{code.__name__}_{digest:x}"
    return copy


_CURRENT: ContextVar[Loops | None] = ContextVar("loops", default=None)


def current() -> Loops | None:
    """Return the loops that a run shall use; None for numpy."""
    return _CURRENT.get()


def use(loops: Loops | None) -> None:
    """Let operations use the loops, if there are any, up to the end of this context."""
    _CURRENT.set(loops)


@contextmanager
def in_use(loops: Loops | None) -> Iterator[None]:
    """Let operations of a block of this context use the loops, if there are any."""
    token = _CURRENT.set(loops)
    try:
        yield
    finally:
        _CURRENT.reset(token)
