"""Comparison of backends: gpunn.compare and the data that it returns."""

from __future__ import annotations

from gpunn.comparison.compare import compare
from gpunn.comparison.result import Check, Comparison, Finding, Layer, LayerSide, OutputPair, Pair

__all__ = ["Check", "Comparison", "Finding", "Layer", "LayerSide", "OutputPair", "Pair", "compare"]
