"""Numbers of a comparison as text, for the terminal and the report."""

from __future__ import annotations

import math

from gpunn.comparison.metrics import Metrics
from gpunn.comparison.result import OutputPair
from gpunn.wording import counted


def number(value: float | None, form: str) -> str:
    """Format a number with `form`; "-" for None."""
    if value is None:
        return "-"
    return format(value, form) if math.isfinite(value) else ("inf" if value > 0 else "-inf")


def ratio(value: float) -> str:
    """Format an error as a share or a multiple of its tolerance."""
    if not math.isfinite(value):
        return "inf"
    if value <= 1:
        return f"{value:.1%}"
    return f"{value:.3g}x" if value < 1000 or value >= 1e9 else f"{float(f'{value:.3g}'):,.0f}x"


def of_tolerance(value: float) -> str:
    """Describe an error in tolerances, in words."""
    if not math.isfinite(value):
        return "beyond any tolerance"
    return f"{ratio(value)} {'of ' if value <= 1 else ''}the tolerance"


def largest_error(metrics: Metrics, form: str = ".3g") -> str:
    """Format the largest error; in steps for quantised tensors."""
    if metrics.max_steps is None:
        return format(metrics.max_abs_error, form)
    return counted(metrics.max_steps, "step")


def share_of_allowed(output: OutputPair) -> str:
    """Format the largest error of an output as a share of its tolerance; "-" without a tolerance."""
    if output.ratio is None:
        return "-"
    if output.tolerance == 0:
        return "not equal" if output.ratio else "equal"
    return ratio(output.ratio)
