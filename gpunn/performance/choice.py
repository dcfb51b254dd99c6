"""The choice of the device for backend="auto", by measurements."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from gpunn.performance.info import PerformanceInfo

T = TypeVar("T")


def best(found: Mapping[T, PerformanceInfo], low_power: bool, rank: Callable[[T], int]) -> T | None:
    """Choose a device; None for the cpu backend, whose time and energy are 1 by definition.

    The shortest time wins or, with low_power, the least energy. If no device has a measurement, the first by
    `rank` wins.
    """
    costs = {device: info.power_usage if low_power else info.exec_time for device, info in found.items()}
    known = {device: cost for device, cost in costs.items() if cost is not None}
    if not known:
        return min(found, key=rank, default=None)
    least = min(known, key=known.__getitem__)
    return least if known[least] < 1 else None
