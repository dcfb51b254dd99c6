"""Exceptions: everything that gpunn raises on purpose derives from GpunnError.

GpunnError
|- FormatError (ValueError)                 the file is not what it says: truncated, corrupt, oversized
|- ModelError (ValueError)                  the graph is wrong, or an array does not fit it
|- UnsupportedError (NotImplementedError)   known, but cannot be done; lists all such operations
`- DeviceError (RuntimeError)               no adapter, over a limit, out of memory, device lost, ...
"""

from __future__ import annotations


class GpunnError(Exception):
    """Base class of all errors of gpunn."""


class FormatError(GpunnError, ValueError):
    """A file cannot be read as the format it claims to be."""


class ModelError(GpunnError, ValueError):
    """A graph, or an array handed to it, breaks a rule of its operations."""


class UnsupportedError(GpunnError, NotImplementedError):
    """Something well-formed that gpunn cannot run; the message lists every occurrence."""


class DeviceError(GpunnError, RuntimeError):
    """The GPU cannot do what was asked: absent, over a limit, out of memory, lost, or it rejects a shader."""
