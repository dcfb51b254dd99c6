"""The way from functions of this package to machine code, by numba."""

from __future__ import annotations

import platform
import warnings
import zlib
from collections.abc import Callable, Mapping
from functools import cache, cached_property, partial
from pathlib import Path
from types import FunctionType
from typing import Any

import numpy as np

from gpunn.ops.compiled import rows
from gpunn.ops.compiled.integer_products import INTEGER_PRODUCTS
from gpunn.ops.compiled.kinds import Loop, Replay
from gpunn.ops.compiled.numba_types import NumbaTypes
from gpunn.ops.compiled.part_code import part_code
from gpunn.ops.compiled.sharing import Shared, in_python, shared_loop
from gpunn.ops.compiled.team_code import (
    code_for,
    compute,
    part_of,
    record,
    replay,
    serve,
    share,
    take,
)
from gpunn.ops.compiled.tiles import boxes
from gpunn.ops.compiled.vectors import OF_REALS, Write, by_feature, written

FOLDER = Path(__file__).parent


class Compiler(NumbaTypes):
    """Compiles functions for a CPU with these features, as LLVM lists them."""

    def __init__(self, numba: Any, features: str) -> None:
        super().__init__(numba.types)
        self._numba, self._features = numba, features
        self._of_bytes = by_feature(features, INTEGER_PRODUCTS)
        self._of_reals = by_feature(features, OF_REALS)
        self._lanes = rows.LANES if self._of_reals is None else self._of_reals.lanes
        self._waiting: list[Callable[[], Loop]] = []
        self._known: dict[Any, Any] = {}  # what stands in code of numba's for functions of this package
        self._jitable(boxes)
        for function, (write, word) in code_for(platform.machine()).items():
            self._known[function] = written(write, 1, word)
        for own in (take, compute, record):
            self._jitable(own)

    def _teach(self, function: Loop, write: Write, lanes: int | None = None) -> None:
        """Let loops that are compiled later have the code that `write` writes for a function."""
        if function not in self._known:
            self._known[function] = written(write, self._lanes if lanes is None else lanes)

    def _jitable(self, function: Callable[..., Any]) -> None:
        """Let what is compiled later call a function that numba compiles, after those that it calls."""
        if function not in self._known:
            self._known[function] = self._numba.extending.register_jitable(self._with_code(function))

    def _with_code(self, function: Callable[..., Any], more: Mapping[Any, Any] | None = None) -> Loop:
        """Return a function that calls what is known of others in their place, or what `more` says."""
        code: Any = function
        others = {**self._known, **(more or {})}
        known = {k: others.get(v, v) for k, v in code.__globals__.items() if isinstance(v, FunctionType)}
        return FunctionType(code.__code__, {**code.__globals__, **known}, code.__name__, code.__defaults__)

    @cached_property
    def serve(self) -> Loop:
        """Compile what the threads of a team do that help, or load it."""
        found: Loop = self._compiled(serve, (self._words, self._index, self._index))
        return found

    @cached_property
    def replay(self) -> Replay:
        """Compile what computes recorded calls of loops, or load it."""
        found: Replay = self._compiled(
            replay, (self._words, self._given(self._index, 2), self._types.boolean)
        )
        return found

    def complete(self) -> None:
        """Compile what has been left to the first call of a loop."""
        for compile_loop in self._waiting:
            compile_loop()
        self._waiting.clear()

    def _shared(
        self, loop: Loop, *signatures: tuple[Any, ...], lanes: int | None = None, now: bool = False
    ) -> Shared:
        """Return a loop whose parts threads share, for operands of several signatures.

        Each is compiled by the first call that has such operands; the last one now, if `now` says so. lanes:
        an operand before those of the signatures. These differ in dtypes of arrays.
        """
        first, part = () if lanes is None else (lanes,), self._with_code(loop)
        kinds, array = [*zip(*signatures, strict=True)], self._types.Array
        by = [k for k, types in enumerate(kinds) if len({*types}) > 1 and isinstance(types[0], array)]
        known = {tuple([np.dtype(str(types[k].dtype)) for k in by]): types for types in signatures}

        def compiled(dtypes: tuple[Any, ...]) -> Loop:
            operands = self._types.Tuple((*(self._index for _ in first), *known[dtypes]))
            signature = self._words, self._given(self._index), operands
            found: Loop = self._compiled(share, signature, name=loop.__name__, part=part_code(part))
            return found

        @cache
        def when_called(dtypes: tuple[Any, ...]) -> Loop:
            try:
                return compiled(dtypes)
            except Exception as error:  # none that numba compiles has been refused so far
                why = f"numba cannot compile a loop, so Python computes it: {loop.__name__}: {error}"
                warnings.warn(why, RuntimeWarning, stacklevel=2)
                return in_python(loop)

        *later, last = known
        codes = {last: compiled(last)} if now else {}
        self._waiting.extend(partial(when_called, dtypes) for dtypes in (later if now else known))
        return shared_loop(when_called, by, codes, *first)

    def _compiled(self, function: Loop, signature: Any, name: str = "", part: Any = None) -> Any:
        own = named(self._with_code(function, {part_of: part}), name or function.__name__)
        try:
            return self._numba.njit([signature], nogil=True, error_model="numpy", cache=True)(own)
        except RuntimeError:  # there is no folder that it may keep the code in
            return self._numba.njit([signature], nogil=True, error_model="numpy")(own)


def named(function: Loop, name: str) -> Loop:
    """Name a function by the code in this package, too, and return it.

    numba keeps machine code by the name of a function and the date of its file.
    """
    digest = zlib.crc32(b"".join(path.read_bytes() for path in sorted(FOLDER.glob("*.py"))))
    function.__qualname__ = f"{name}_{digest:x}"
    return function
