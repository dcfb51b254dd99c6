"""Recorder: times the dispatches of a run one by one, by timestamps or, without these, by submissions."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterable, Sequence

import numpy as np
import wgpu

from gpunn.backends.base import Span
from gpunn.backends.webgpu.device import Device
from gpunn.backends.webgpu.native import Copy, Dispatch, await_submission, submit, timestamp_period
from gpunn.backends.webgpu.stage import Stage
from gpunn.device import TIMESTAMPS
from gpunn.graph.operation import Operation

_PASSES = 2048  # in a submission: a query set holds 4096 timestamps (WebGPU, section 20.1)
_EMPTY_RUNS = 9  # submissions of nothing, whose median is taken from the time of each dispatch

_Time = tuple[float, float]  # begin and duration in seconds


class Recorder:
    """A substitute for submit() for one run, which notes the beginning and the duration of everything.

    Every dispatch is a compute pass of its own, so a recorded run is slower than others. `method` is
    "timestamps" (the device's clock before and after each pass) or "submissions" (each dispatch is submitted
    alone and waited for; the time of an empty submission is subtracted).
    """

    def __init__(self, device: Device) -> None:
        self._device = device
        self.method = "timestamps" if TIMESTAMPS in device.properties.features else "submissions"
        self.spans: list[Span] = []
        self._started = time.perf_counter()

    def host(self, name: str, began: float, operation: Operation | None = None) -> None:
        """Note the host's work since `began` (time.perf_counter())."""
        self.spans.append(Span(name, began - self._started, time.perf_counter() - began, operation))

    def submit(
        self, stage: Stage, dispatches: Sequence[Dispatch], copies: Iterable[Copy], before: Sequence[Copy]
    ) -> int:
        """Run copies, dispatches, more copies; the number of the last submission.

        dispatches: one for each kernel of the stage.
        """
        if before:
            submit(self._device.wgpu, (), before)
        began = time.perf_counter() - self._started
        timed = self._by_timestamps if self.method == "timestamps" else self._by_submissions
        for (operation, kernel), (begin, seconds) in zip(stage.dispatched, timed(dispatches), strict=True):
            self.spans.append(Span(kernel.name, began + begin, seconds, operation, kernel))
        return submit(self._device.wgpu, (), copies)

    def _by_timestamps(self, dispatches: Sequence[Dispatch]) -> list[_Time]:
        times: list[_Time] = []
        for first in range(0, len(dispatches), _PASSES):
            times += self._stamped(dispatches[first : first + _PASSES])
        return times

    def _stamped(self, dispatches: Sequence[Dispatch]) -> list[_Time]:
        """Time the dispatches in one submission; begins count from the first one's."""
        device, count = self._device.wgpu, 2 * len(dispatches)
        queries = device.create_query_set(type="timestamp", count=count)
        stamps = device.create_buffer(
            size=8 * count, usage=wgpu.BufferUsage.QUERY_RESOLVE | wgpu.BufferUsage.COPY_SRC
        )
        encoder = device.create_command_encoder()
        for number, dispatch in enumerate(dispatches):
            ends = {"beginning_of_pass_write_index": 2 * number, "end_of_pass_write_index": 2 * number + 1}
            compute = encoder.begin_compute_pass(timestamp_writes={"query_set": queries, **ends})
            compute.set_pipeline(dispatch.pipeline)
            compute.set_bind_group(0, dispatch.bind_group)
            compute.dispatch_workgroups(*dispatch.groups)
            compute.end()
        encoder.resolve_query_set(queries, 0, count, stamps, 0)
        device.queue.submit([encoder.finish()])
        ticks = np.frombuffer(device.queue.read_buffer(stamps), np.uint64).reshape(-1, 2)
        stamps.destroy()
        queries.destroy()
        times = (ticks - ticks[0, 0]).astype(np.int64) * timestamp_period(device)
        return [(begin, max(end - begin, 0.0)) for begin, end in times.tolist()]

    def _by_submissions(self, dispatches: Sequence[Dispatch]) -> list[_Time]:
        empty = statistics.median(self._alone(()) for _ in range(_EMPTY_RUNS))
        start, times = time.perf_counter(), []
        for dispatch in dispatches:
            began = time.perf_counter() - start
            times.append((began, max(self._alone((dispatch,)) - empty, 0.0)))
        return times

    def _alone(self, dispatches: tuple[Dispatch, ...]) -> float:
        """Measure a submission, from its recording to its end."""
        began = time.perf_counter()
        number = submit(self._device.wgpu, dispatches, ())
        await_submission(self._device.wgpu, number, self._device.turn)
        return time.perf_counter() - began
