"""PerformanceInfo and Capabilities, in the terms of types.hal 1.0."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PerformanceInfo:
    """Time and energy of one inference relative to the cpu backend; lower is better.

    power_usage is None if it is unknown; power_reason says why.
    """

    exec_time: float
    power_usage: float | None
    power_reason: str = ""


@dataclass(frozen=True, slots=True)
class Capabilities:
    """A device's performance on float32 and on asymmetric 8-bit quantised data."""

    float32_performance: PerformanceInfo
    quantized8_performance: PerformanceInfo
