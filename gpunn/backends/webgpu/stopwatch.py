"""Stopwatch: the time of dispatches on a device, by its timestamps or, without these, by submissions."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np
import wgpu

from gpunn.backends.webgpu.device import Device
from gpunn.backends.webgpu.native import Dispatch, await_submission, submit, timestamp_period
from gpunn.device import TIMESTAMPS

Time = tuple[float, float]  # begin and duration in seconds
Pass = Sequence[Dispatch]  # what is timed as a whole: one compute pass

_PASSES = 2048  # in a submission: a query set holds 4096 timestamps (WebGPU, section 20.1)
_EMPTY_RUNS = 9  # submissions of nothing; the least time is taken from that of each pass


class Stopwatch:
    """Times compute passes. `method` says how.

    "timestamps": the device's clock before and after each pass. "submissions": each pass is submitted alone
    and waited for; the time of an empty submission is subtracted. The caller holds the device's lock.
    """

    def __init__(self, device: Device) -> None:
        self._device = device
        self.method = "timestamps" if TIMESTAMPS in device.properties.features else "submissions"

    def times(self, passes: Sequence[Pass]) -> list[Time]:
        """Run passes one after the other; return begins, which count from about the first one's, and times.

        With timestamps this is one submission for all, or for many thousands one for 2048. Raises wgpu's
        errors.
        """
        if self.method == "submissions":
            return self._by_submissions(passes)
        times: list[Time] = []
        for first in range(0, len(passes), _PASSES):
            times += self._stamped(passes[first : first + _PASSES])
        return times

    def _stamped(self, passes: Sequence[Pass]) -> list[Time]:
        """Time passes in one submission; begins count from the first one's."""
        device, count = self._device.wgpu, 2 * len(passes)
        queries = device.create_query_set(type="timestamp", count=count)
        stamps = device.create_buffer(
            size=8 * count, usage=wgpu.BufferUsage.QUERY_RESOLVE | wgpu.BufferUsage.COPY_SRC
        )
        encoder = device.create_command_encoder()
        for number, dispatches in enumerate(passes):
            ends = {"beginning_of_pass_write_index": 2 * number, "end_of_pass_write_index": 2 * number + 1}
            compute = encoder.begin_compute_pass(timestamp_writes={"query_set": queries, **ends})
            for dispatch in dispatches:
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

    def _by_submissions(self, passes: Sequence[Pass]) -> list[Time]:
        empty = min(self._alone(()) for _ in range(_EMPTY_RUNS))
        start, times = time.perf_counter(), []
        for dispatches in passes:
            began = time.perf_counter() - start
            times.append((began, max(self._alone(dispatches) - empty, 0.0)))
        return times

    def _alone(self, dispatches: Pass) -> float:
        """Measure a submission, from its recording to its end."""
        began = time.perf_counter()
        number = submit(self._device.wgpu, dispatches, ())
        await_submission(self._device.wgpu, number, self._device.turn)
        return time.perf_counter() - began
