"""Exceptions: everything that gpunn raises on purpose derives from GpunnError.

GpunnError
|- FormatError (ValueError)                 the file is not what it says: truncated, corrupt, oversized
|- ModelError (ValueError)                  the graph is wrong, or an array does not fit it
|- UnsupportedError (NotImplementedError)   known, but cannot be done; lists all such operations
|- DeviceError (RuntimeError)               no adapter, over a limit, out of memory, device lost, ...
`- NnapiError                               a call of gpunn.nnapi failed; `code` is its ResultCode
"""

from __future__ import annotations

import enum


class ResultCode(enum.IntEnum):
    """What a call of gpunn.nnapi ends with (NeuralNetworks.h, ResultCode, with its values).

    The document gives UNMAPPABLE the number of OP_FAILED, so here the two are one. NO_ERROR is never raised,
    nor is INCOMPLETE, for which the documents have no use.
    """

    NO_ERROR = 0
    OUT_OF_MEMORY = 1
    INCOMPLETE = 2
    UNEXPECTED_NULL = 3
    BAD_DATA = 4
    OP_FAILED = 5
    UNMAPPABLE = 5
    BAD_STATE = 6


class GpunnError(Exception):
    """Base class of all errors of gpunn."""


class FormatError(GpunnError, ValueError):
    """A file cannot be read as the format it claims to be."""


class ModelError(GpunnError, ValueError):
    """A graph, or an array handed to it, breaks a rule of its operations."""


class UnsupportedError(GpunnError, NotImplementedError):
    """Something well-formed that gpunn cannot run; the message lists every occurrence."""


class DeviceError(GpunnError, RuntimeError):
    """The device cannot do what was asked: absent, over a limit, out of memory, lost, or it rejects a shader.

    The CPU backend is a device that can be out of memory.
    """


class NnapiError(GpunnError):
    """A call of gpunn.nnapi failed: `code` says how, as NeuralNetworks.h has it, the text says why."""

    def __init__(self, code: ResultCode, message: str) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message

    def __str__(self) -> str:
        return f"{self.code.name}: {self.message}"
