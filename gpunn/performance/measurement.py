"""Time and energy of a device for the reference workload, relative to the cpu backend."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter

import numpy as np

from gpunn.backends.base import Program
from gpunn.graph.graph import Graph
from gpunn.performance.energy import Energy, Meter
from gpunn.performance.info import Capabilities, PerformanceInfo
from gpunn.performance.workload import reference_workload

ROUNDS = 3  # timed runs at least, of which the fastest counts
WINDOW = 0.05  # seconds of runs to be timed
METERED_WINDOW = 0.25  # and to be metered: NVML's counter moves ten times a second, and should do so twice

Build = Callable[[Graph], Program]


@dataclass(frozen=True, slots=True)
class _Use:
    """The cost of one run: seconds, and joules if they are metered."""

    seconds: float
    joules: float | None


def measure(device: Build, cpu: Build, energy: Energy) -> Capabilities:
    """Measure the performance of a device relative to the cpu backend.

    This takes a second, mostly for compiling, and another second if energy is metered. device, cpu: functions
    that make a program of a model. Raises DeviceError if the device fails.
    """
    return Capabilities(*(_compare(reference_workload(q), device, cpu, energy) for q in (False, True)))


def _compare(model: Graph, device: Build, cpu: Build, energy: Energy) -> PerformanceInfo:
    reason = energy.reason
    ours = _use(cpu(model), model, None if reason else energy.cpu())
    its = _use(device(model), model, None if reason else energy.device())
    ratio = its.seconds / ours.seconds
    if reason:
        return PerformanceInfo(ratio, None, reason)
    if not ours.joules or not its.joules:
        return PerformanceInfo(ratio, None, "a counter of energy cannot be read, or hardly moves")
    return PerformanceInfo(ratio, its.joules / ours.joules)


def _use(program: Program, model: Graph, meter: Meter | None) -> _Use:
    """Measure the fastest of some runs, after one that does not count, and the mean energy of all."""
    try:
        inputs = [np.zeros(i.type.shape, i.type.dtype.numpy) for i in model.inputs]
        program.run(inputs)
        times: list[float] = []
        end = perf_counter() + (WINDOW if meter is None else METERED_WINDOW)
        while len(times) < ROUNDS or perf_counter() < end:
            start = perf_counter()
            program.run(inputs)
            times.append(perf_counter() - start)
            if meter is not None:
                meter.note(len(times))
        return _Use(min(times), None if meter is None else meter.joules())
    finally:
        program.close()
