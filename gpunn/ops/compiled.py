"""Loops of gpunn.ops.loops as machine code, by numba (extra `fast-cpu`), for runs that shall stay fast.

The references never use them: they are for programs of the CPU backend, after use(). numba keeps what it
compiles beside the module of the loops, or in its cache folder of the user; the first time takes some
seconds, later ones some tenths.
"""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Any, NamedTuple

from gpunn.ops import loops

TOGETHER = 512  # elements of several pixels that a loop takes at a time, so that starting it costs little

Loop = Callable[..., None]


class Loops(NamedTuple):
    """The functions of gpunn.ops.loops, compiled for float32 and for stored integers of 8 bits."""

    finish: Loop
    requantize: Loop
    floors: Loop
    pair_sums: Loop
    depthwise: Loop


@cache
def load() -> Loops | None:
    """Compile the loops, or load what has been compiled; None if numba is not installed.

    Warns, and returns None, if numba is installed but does not go with what else is.
    """
    if importlib.util.find_spec("numba") is None:
        return None
    try:
        import numba
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

    for part in loops.PARTS:
        register_jitable(part)
    f32, f64, i64, row = types.float32, types.float64, types.int64, given(types.int64)
    geometry = types.UniTuple(i64, 15)
    steps = (row, row, row, row, row, types.UniTuple(i64, 3))
    stored = (types.int8, types.uint8)
    added = types.UniTuple(f32, 3), types.UniTuple(f32, 2), i64
    return Loops(
        compiled(loops.finish, (types.Array(f32, 2, "C"), given(f32), f32, f32)),
        compiled(loops.requantize, *((given(f32, 2), *steps, types.Array(s, 2, "C")) for s in stored)),
        compiled(
            loops.floors,
            *((given(f32, 2), *line(r), types.Array(s, 2, "C")) for r in (f64, f32) for s in stored),
        ),
        compiled(loops.pair_sums, *((given(s), given(s), *added, types.Array(s, 1, "C")) for s in stored)),
        compiled(
            loops.depthwise,
            (given(f32), given(f32), given(f32), f32, f32, geometry, types.Array(f32, 1, "C")),
        ),
    )


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
