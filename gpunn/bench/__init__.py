"""gpunn bench: cold starts, latency and throughput of gpunn, and of other libraries on the same model."""

from __future__ import annotations

from gpunn.bench.measure import benchmark
from gpunn.bench.result import Benchmark, Entrant, Ratio, Result

__all__ = ["Benchmark", "Entrant", "Ratio", "Result", "benchmark"]
