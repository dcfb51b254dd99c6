"""Recorder: times the dispatches of a run, one by one or together."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence

from gpunn.backends.base import Span
from gpunn.backends.webgpu.device import Device
from gpunn.backends.webgpu.native import Copy, Dispatch, submit
from gpunn.backends.webgpu.stage import Stage
from gpunn.backends.webgpu.stopwatch import Stopwatch
from gpunn.graph.operation import Operation


class Recorder:
    """A substitute for submit() for one run, which notes the beginning and the duration of everything.

    Every dispatch is a compute pass of its own, so a recorded run is slower than others; whole: those of a
    stage are one pass, as in other runs, and `device_seconds` is the time of all passes. `method` is how they
    are timed; see Stopwatch.
    """

    def __init__(self, device: Device, whole: bool = False) -> None:
        self._device = device
        self.device_seconds = 0.0 if whole else None
        self._stopwatch = Stopwatch(device)
        self.method = self._stopwatch.method
        self.spans: list[Span] = []
        self._started = time.perf_counter()

    def host(self, name: str, began: float, operation: Operation | None = None) -> None:
        """Note the host's work since `began` (time.perf_counter())."""
        self.spans.append(Span(name, began - self._started, time.perf_counter() - began, operation))

    def submit(
        self, stage: Stage, dispatches: Sequence[Dispatch], copies: Iterable[Copy], before: Sequence[Copy]
    ) -> int:
        """Run copies, dispatches, more copies; the number of the last submission.

        dispatches: one for each kernel of the stage; those of its runs may do the work of several.
        """
        if before:
            submit(self._device.wgpu, (), before)
        if self.device_seconds is not None:
            ((_, seconds),) = self._stopwatch.times([stage.dispatches])
            self.device_seconds += seconds
            return submit(self._device.wgpu, (), copies)
        began = time.perf_counter() - self._started
        times = self._stopwatch.times([(dispatch,) for dispatch in dispatches])
        for (operation, kernel), (begin, seconds) in zip(stage.dispatched, times, strict=True):
            self.spans.append(Span(kernel.name, began + begin, seconds, operation, kernel))
        return submit(self._device.wgpu, (), copies)
