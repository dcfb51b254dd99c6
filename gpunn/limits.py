"""Limits: how much a model may take, for models that are not trusted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import partial

from gpunn.errors import LimitError, ModelError

SECONDS = ("compile_seconds", "run_seconds")


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The most that a model may take; None is no limit. What wants more raises LimitError.

    A model keeps the limits with which it was loaded: they hold for its compilations and their runs, for all
    shapes of inputs, and for programs that a run makes because values decide on shapes.

    file_bytes: bytes of the model file, also of the one in a package. It is not read then.
    operators: operators of a .tflite file, each as often as its subgraph is called, or layers of an .mlmodel
        file, those in branches, loops and pipelines included.
    constant_bytes: bytes of constants in memory, unpacked as operations take them.
    host_bytes: bytes of tensors on the host, for each program: its constants, and the most that a run has of
        inputs, intermediates and results at a time, those of the bodies of loops and branches included. It is
        known from shapes before anything is allocated. What an operation needs for itself does not count, nor
        does a body whose shapes only a run tells, which is a program of its own.
    device_bytes: bytes on a GPU, as `device_memory_limit` of compile(); if both are given, the smaller holds.
    compile_seconds: seconds of each compile, asked between passes, kernels and pipelines. Those for other
        shapes count anew.
    run_seconds: seconds of each run, from run() or submit(), as `timeout` of run(): it ends before its next
        operation or round of a loop.

    Raises ModelError for what is not a number, or is below 0.
    """

    file_bytes: int | None = None
    operators: int | None = None
    constant_bytes: int | None = None
    host_bytes: int | None = None
    device_bytes: int | None = None
    compile_seconds: float | None = None
    run_seconds: float | None = None

    def __post_init__(self) -> None:
        for name in (field.name for field in fields(self)):
            value = getattr(self, name)
            kinds = (int, float) if name in SECONDS else int
            if value is None or (isinstance(value, kinds) and not isinstance(value, bool) and value >= 0):
                continue
            kind = "a number" if name in SECONDS else "an integer"
            raise ModelError(f"Limits: {name} must be {kind} of at least 0 or None, got {value!r}")

    def check(self, name: str, wanted: int, what: str) -> None:
        """Raise LimitError if `wanted` is over the limit `name`; the message begins with `what`."""
        allowed: int | None = getattr(self, name)
        if allowed is not None and wanted > allowed:
            raise LimitError(f"{what}, the limit {name} is {allowed}", name, allowed, wanted)

    def late(self, name: str, what: str) -> Callable[[], LimitError]:
        """Return what makes the error of something that has not ended after the seconds of a limit."""
        seconds: float = getattr(self, name)
        message = f"{what} has not ended after {seconds:g} s, the limit {name}"
        return partial(LimitError, message, name, seconds)


UNLIMITED = Limits()
