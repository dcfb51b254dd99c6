"""The performance of devices relative to the cpu backend, in time and energy (types.hal, PerformanceInfo)."""

from gpunn.performance.cache import remembered
from gpunn.performance.choice import best
from gpunn.performance.energy import Energy
from gpunn.performance.info import Capabilities, PerformanceInfo
from gpunn.performance.measurement import Build, measure

__all__ = ["Build", "Capabilities", "Energy", "PerformanceInfo", "best", "measure", "remembered"]
