"""Exceptions: everything that gpunn raises on purpose derives from GpunnError.

GpunnError
|- FormatError (ValueError)                 the file is not what it says: truncated, corrupt, oversized
|  `- MissingFileError (FileNotFoundError)  the file does not exist
|- ModelError (ValueError)                  the graph is wrong, or an array does not fit it
|- ModelFileError (FormatError, ModelError)  the graph in a file is wrong, so the file is
|- UnsupportedError (NotImplementedError)   known, but cannot be done; lists all such operations
|- DeviceError (RuntimeError)               no adapter, over a limit, out of memory, device lost, ...
|  |- LimitError                            a model wants more than its gpunn.Limits allow
|  `- OutOfMemoryError                      the memory of the device has run out
|- DivergenceError (ArithmeticError)        a training whose loss is not finite; `step` says where
|- RunTimeoutError (TimeoutError)           a run, or a wait for it, took longer than allowed
|- RunCancelledError (CancelledError)       a run was ended by cancel() or Ctrl-C
`- NnapiError                               a call of gpunn.nnapi failed; `code` is its ResultCode
"""

from __future__ import annotations

import enum
import errno
import os
from concurrent.futures import CancelledError


class ResultCode(enum.IntEnum):
    """The result of a call of gpunn.nnapi (NeuralNetworks.h, ResultCode, with its values).

    The document gives UNMAPPABLE the number of OP_FAILED, so both names are one member. NO_ERROR and
    INCOMPLETE are never raised: the documents have no use for INCOMPLETE. OUTPUT_INSUFFICIENT_SIZE is of
    feature level 29.
    """

    NO_ERROR = 0
    OUT_OF_MEMORY = 1
    INCOMPLETE = 2
    UNEXPECTED_NULL = 3
    BAD_DATA = 4
    OP_FAILED = 5
    UNMAPPABLE = 5
    BAD_STATE = 6
    OUTPUT_INSUFFICIENT_SIZE = 8


class GpunnError(Exception):
    """Base class of all errors of gpunn."""


class FormatError(GpunnError, ValueError):
    """A file that is not what it claims to be."""


class MissingFileError(FormatError, FileNotFoundError):
    """A file that does not exist, also a FileNotFoundError with its attributes."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        super().__init__(str(path))
        self.errno, self.strerror, self.filename = errno.ENOENT, os.strerror(errno.ENOENT), str(path)

    def __reduce__(self) -> tuple[type[MissingFileError], tuple[str]]:
        return type(self), (self.filename,)

    def __str__(self) -> str:
        return f"{self.filename}: {str(self.strerror).lower()}"


class ModelError(GpunnError, ValueError):
    """A graph, or an array for it, that breaks a rule of its operations."""


class ModelFileError(FormatError, ModelError):
    """A file whose graph breaks a rule of its operations: an error of the file and one of the graph."""


class UnsupportedError(GpunnError, NotImplementedError):
    """A valid model that gpunn cannot run; the message lists every occurrence."""


class DeviceError(GpunnError, RuntimeError):
    """A failure of the device: absent, over a limit, out of memory, lost, or it rejects a shader.

    The CPU backend is a device, too, and can run out of memory.
    """


class LimitError(DeviceError):
    """A model that wants more than its gpunn.Limits allow, when it is loaded, compiled or run.

    limit: the name of the limit, a field of Limits; allowed: its value, in bytes, operators or seconds;
    wanted: what the model wants, as far as it is known by then, None for seconds.
    """

    def __init__(self, message: str, limit: str, allowed: float, wanted: int | None = None) -> None:
        super().__init__(message, limit, allowed, wanted)
        self.limit = limit
        self.allowed = allowed
        self.wanted = wanted

    def __str__(self) -> str:
        return str(self.args[0])


class OutOfMemoryError(DeviceError):
    """Memory that has run out: of the GPU, or of the host, where the CPU backend computes."""


class DivergenceError(GpunnError, ArithmeticError):
    """A training whose loss became infinite or NaN.

    step: the number of the step, from 1; first: what in it was first not finite, None if that is unknown.
    """

    def __init__(self, message: str, step: int, first: str | None = None) -> None:
        super().__init__(message, step, first)
        self.step = step
        self.first = first

    def __str__(self) -> str:
        return str(self.args[0])


class RunTimeoutError(GpunnError, TimeoutError):
    """A run, or a wait for one, that has not ended in the time that it was given."""


class RunCancelledError(GpunnError, CancelledError):
    """A run that was ended early: by Event.cancel(), or by Ctrl-C in a thread that waited for it."""


class NnapiError(GpunnError):
    """A failed call of gpunn.nnapi: `code` is the ResultCode of NeuralNetworks.h, the text says why."""

    def __init__(self, code: ResultCode, message: str) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message

    def __str__(self) -> str:
        return f"{self.code.name}: {self.message}"
