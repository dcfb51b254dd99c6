"""Loops as machine code, by numba (extra `fast-cpu`), for runs that shall stay fast.

They are for programs of the CPU backend, after use(); a reference that is asked elsewhere computes by numpy
alone. numba keeps what it compiles beside the modules of the loops, or in its cache folder of the user; the
first time takes some seconds, later ones some tenths.
"""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import NamedTuple

from gpunn.ops.compiled.kinds import (
    IntegerLoops,
    Loop,
    OfBytes,
    OfReals,
    RealLoops,
    Replay,
    StepLoops,
)
from gpunn.ops.compiled.making import Maker
from gpunn.ops.compiled.sharing import Shared

LEAST_NUMBA = 0, 61  # 0.60 sometimes takes int8 for uint8 where arrays lie in a tuple
TOGETHER = 512  # elements of several pixels that a loop takes at a time, so that starting it costs little

__all__ = [
    "TOGETHER",
    "IntegerLoops",
    "Loop",
    "Loops",
    "Maker",
    "OfBytes",
    "OfReals",
    "RealLoops",
    "Replay",
    "Shared",
    "StepLoops",
    "depthwise_loop",
    "equal_rows",
    "in_use",
    "installed",
    "integer_loops",
    "load",
    "maker",
    "real_loops",
    "step_loops",
    "use",
]


def equal_rows(pixels: int, channels: int) -> int:
    """Return how many pixels are a row of a loop, as many in each: up to TOGETHER elements, or one pixel."""
    most = max(1, min(pixels, TOGETHER // channels))
    return next(k for k in range(most, 0, -1) if pixels % k == 0)


class Loops(NamedTuple):
    """The loops of this package that a program uses; None for those of a kind that it does not have.

    replay: computes calls again that have been captured.
    """

    reals: RealLoops | None
    integers: IntegerLoops | None
    steps: StepLoops | None = None
    replay: Replay | None = None

    @property
    def multiply(self) -> bool:
        """Tell whether there are products of all kinds, for this CPU."""
        reals = self.reals is None or self.reals.of_tiles is not None
        return reals and (self.integers is None or self.integers.of_bytes is not None)


def installed() -> bool:
    """Tell whether numba is."""
    return importlib.util.find_spec("numba") is not None


@cache
def load(reals: bool = True, integers: bool = True, steps: bool = True) -> Loops | None:
    """Compile the loops of these kinds, or load what has been compiled; None if numba is not installed.

    Warns, and returns None, if numba is installed but does not go with what else is, or with the loops.
    """
    if not (reals or integers or steps) or not installed():
        return None
    try:
        found = maker()
        of_types = found.reals if reals else None, found.integers if integers else None
        return Loops(*of_types, found.steps if steps else None, found.replay)
    except ImportError as error:  # numba refuses versions of numpy that it does not know
        reason = f"numba cannot be used: {error}"
    except Exception as error:  # another version of numba or LLVM than those that are known
        reason = f"numba cannot compile loops: {error}"
    warnings.warn(f"the CPU backend computes with numpy alone: {reason}", RuntimeWarning, stacklevel=2)
    return None


@cache
def maker() -> Maker:
    """Return what makes the loops for this CPU. Raises ImportError if numba cannot be used."""
    import numba

    if tuple(map(int, numba.__version__.split(".")[:2])) < LEAST_NUMBA:
        needed = ".".join(map(str, LEAST_NUMBA))
        raise ImportError(f"numba {needed} or later is needed, this is {numba.__version__}")
    if getattr(numba.config, "DISABLE_JIT", False):
        raise ImportError("NUMBA_DISABLE_JIT is set")
    from numba.core.registry import cpu_target

    *_, features = cpu_target.target_context.codegen().magic_tuple()  # those that numba compiles for
    return Maker(numba, features)


_CURRENT: ContextVar[Loops | None] = ContextVar("loops", default=None)


def real_loops() -> RealLoops | None:
    """Return the loops for float32 that a run shall use; None for numpy."""
    loops = _CURRENT.get()
    return None if loops is None else loops.reals


def integer_loops() -> IntegerLoops | None:
    """Return the loops for stored integers that a run shall use; None for numpy."""
    loops = _CURRENT.get()
    return None if loops is None else loops.integers


def step_loops() -> StepLoops | None:
    """Return the loops for steps of recurrent layers that a run shall use; None for numpy."""
    loops = _CURRENT.get()
    return None if loops is None else loops.steps


def depthwise_loop() -> Shared | None:
    """Return the loop of depthwise convolutions that a run shall use, in either type; None for numpy."""
    loops = integer_loops() or real_loops()
    return None if loops is None else loops.depthwise


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
