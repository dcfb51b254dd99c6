"""Subnormal numbers count as 0 in products of reals: a CPU takes up to a hundred times as long with them.

Weights that training has let decay are so small, and what passes through many layers of small weights. x86
processors have two flags for each thread, which C's functions of <fenv.h> set. Other processors and systems
are left as they are. Threads of a BLAS library keep their own flags.
"""

from __future__ import annotations

import ctypes
import platform
import sys
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from gpunn.graph.operation import Operation
from gpunn.types import DType

# Intel 64 and IA-32 Architectures Software Developer's Manual, volume 1, section 10.2.3: bits of MXCSR.
_FLUSH_TO_ZERO, _DENORMALS_ARE_ZEROS = 1 << 15, 1 << 6


class _Environment(ctypes.Structure):
    """fenv_t of glibc and musl for x86-64."""

    _fields_ = (("x87", ctypes.c_uint8 * 28), ("mxcsr", ctypes.c_uint32))


def may_flush(operation: Operation) -> bool | None:
    """Tell whether an operation should take subnormal numbers for 0: products of reals should.

    None if it may as well, as arithmetic on reals. What has other operands or results must not: it may have
    an order, or scales, of subnormal numbers, too. Neither must operators of users.
    """
    operands = [o for o in (*operation.inputs, *operation.outputs) if o is not None]
    reals = all(o.type.dtype is DType.FLOAT32 and not o.hybrid for o in operands)
    if not reals or operation.integer or operation.custom is not None:
        return False
    return True if operation.definition.flops is not None else None


def flushing() -> AbstractContextManager[object]:
    """Return a context in which subnormal numbers count as 0 in its thread, where that is known to help.

    One thread at a time may enter it.
    """
    if sys.platform != "linux" or platform.machine() != "x86_64":
        return nullcontext()
    for name in (None, "libm.so.6"):  # what Python is linked with, else the file of glibc
        try:
            library = ctypes.PyDLL(name)  # which keeps Python's lock: each call is a few instructions
            return _Flushing(library.fegetenv, library.fesetenv)
        except (AttributeError, OSError):
            continue
    return nullcontext()


class _Flushing(AbstractContextManager[object]):
    """Sets both flags, and puts back what was there."""

    def __init__(self, read: Any, write: Any) -> None:
        self._read, self._write = read, write
        self._before = _Environment()
        self._pointer = ctypes.byref(self._before)

    def __enter__(self) -> None:
        before = self._before
        self._read(self._pointer)
        flags = before.mxcsr
        before.mxcsr = flags | _FLUSH_TO_ZERO | _DENORMALS_ARE_ZEROS
        self._write(self._pointer)
        before.mxcsr = flags

    def __exit__(self, *_: object) -> None:
        self._write(self._pointer)
