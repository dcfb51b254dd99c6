"""The worst layers, with histograms of their errors."""

from __future__ import annotations

import bisect
import math
from collections.abc import Sequence
from dataclasses import dataclass

from gpunn.comparison import figures
from gpunn.comparison.metrics import HISTOGRAM_EDGES, Metrics
from gpunn.comparison.result import Check, Comparison, Layer, LayerSide
from gpunn.report.axis import decade
from gpunn.report.layers import MODES, check_text, first_over
from gpunn.wording import counted

CARDS = 6
LEAST_BINS = 8
ZERO = 8.0  # percent of the width for the bar of zeros
LABELS = 4  # below a histogram


@dataclass(frozen=True, slots=True)
class Bar:
    """`x`, `width` and `height` in percent of the plot."""

    x: float
    width: float
    height: float
    text: str


@dataclass(frozen=True, slots=True)
class Histogram:
    """The errors of one mode. tolerance: its place in percent, if known. labels: percent and text."""

    mode: str
    text: str
    facts: tuple[str, ...]
    bars: Sequence[Bar]
    tolerance: float | None
    labels: Sequence[tuple[float, str]]
    description: str
    ok: bool


@dataclass(frozen=True, slots=True)
class Card:
    """One layer on one backend. first: whether it is the backend's first layer over its tolerance."""

    position: int
    layer: Layer
    side: LayerSide
    first: bool
    histograms: Sequence[Histogram]


def worst_layers(found: Comparison) -> list[Card]:
    """Choose at most CARDS layers: the first over its tolerance of each backend, then the worst.

    Layers that equal the exact ones on a backend are left out.
    """
    firsts = {(first_over(found, side.backend), side.backend) for side in _backends(found)}
    ranked = []
    for position, layer in enumerate(found.layers):
        for side in layer.sides:
            worst = max((check.ratio for check in (side.isolated, side.accumulated) if check), default=0.0)
            if worst > 0:
                ranked.append(((position, side.backend) not in firsts, -worst, position, layer, side))
    ranked.sort(key=lambda item: item[:3])
    return [_card(position, layer, side, not later) for later, _, position, layer, side in ranked[:CARDS]]


def _backends(found: Comparison) -> Sequence[LayerSide]:
    return found.layers[0].sides if found.layers else ()


def _card(position: int, layer: Layer, side: LayerSide, first: bool) -> Card:
    checks = [(mode, c) for mode, c in zip(MODES, (side.isolated, side.accumulated), strict=True) if c]
    bins = _shown_bins([check for _, check in checks])
    histograms = [_histogram(mode, check, bins) for mode, check in checks]
    return Card(position, layer, side, first, histograms)


def _facts(metrics: Metrics) -> tuple[str, ...]:
    return (
        f"mean error {metrics.mean_abs_error:.3g}",
        f"RMSE {metrics.rmse:.3g}",
        f"cosine {figures.number(metrics.cosine, '.7f')}",
        f"SNR {figures.number(metrics.snr_db, '.1f')} dB",
    )


def _shown_bins(checks: Sequence[Check]) -> range:
    """Return the bins with errors or with the tolerance, at least LEAST_BINS; without the bin for zeros."""
    used = [k for check in checks for k, n in enumerate(check.metrics.histogram) if n and k > 0]
    used += [_bin(check.tolerance) for check in checks if _tolerance_shown(check)]
    count = len(HISTOGRAM_EDGES) + 2
    low, high = min(used, default=count // 2), max(used, default=count // 2) + 1
    missing = max(0, LEAST_BINS - (high - low))
    low = max(1, low - missing // 2)
    high = min(count, max(high, low + LEAST_BINS))
    return range(low, high)


def _tolerance_shown(check: Check) -> bool:
    return check.metrics.max_steps is None and 0 < check.tolerance < math.inf


def _bin(error: float) -> int:
    """Return the bin of a histogram that counts a positive error."""
    return 1 + bisect.bisect_right(HISTOGRAM_EDGES, error)


def _histogram(mode: str, check: Check, bins: range) -> Histogram:
    counts = check.metrics.histogram
    tallest = math.log10(1 + max(counts))
    width = (100 - ZERO) / len(bins)
    shown = [(0.0, ZERO * 0.8, 0), *((ZERO + (k - bins[0]) * width, width * 0.9, k) for k in bins)]
    bars = [
        Bar(x, width, 100 * math.log10(1 + counts[k]) / tallest, f"{_range(k)}: {counts[k]} of {sum(counts)}")
        for x, width, k in shown
        if counts[k]
    ]
    tolerance = _place(check.tolerance, bins) if _tolerance_shown(check) else None
    return Histogram(
        mode=mode,
        text=check_text(check),
        facts=_facts(check.metrics),
        bars=bars,
        tolerance=tolerance,
        labels=_labels(bins),
        description=_description(mode, check.metrics),
        ok=check.ok,
    )


def _place(error: float, bins: range) -> float:
    """Return the place of an error in percent; bins are half decades, with 10^-12 at the upper end of the
    first.
    """
    share = (2 * math.log10(error) + 24 + 2 - bins[0]) / len(bins)
    return ZERO + (100 - ZERO) * min(max(share, 0.0), 1.0)


def _labels(bins: range) -> list[tuple[float, str]]:
    """List 0, and the decades at which bins begin."""
    decades = [(k - 26) // 2 for k in bins if k >= 2 and k % 2 == 0]
    every = math.ceil(len(decades) / LABELS) if decades else 1
    shown = ((_place(10.0**k, bins), decade(k)) for k in decades if k % every == 0)
    return [(ZERO * 0.4, "0"), *((x, text) for x, text in shown if x > 2 * ZERO)]  # not into each other


def _range(number: int) -> str:
    """Describe the errors that a bin counts."""
    if number == 0:
        return "no error"
    if number == 1:
        return f"below {HISTOGRAM_EDGES[0]:.2g}"
    if number == len(HISTOGRAM_EDGES) + 1:
        return f"from {HISTOGRAM_EDGES[-1]:.2g} on"
    return f"{HISTOGRAM_EDGES[number - 2]:.2g} to {HISTOGRAM_EDGES[number - 1]:.2g}"


def _description(mode: str, metrics: Metrics) -> str:
    equal = counted(metrics.count - metrics.different, "is equal", "are equal")
    return (
        f"Absolute errors of {counted(metrics.count, 'value')}, {mode}: {equal}, the mean is "
        f"{metrics.mean_abs_error:.3g}, the largest {metrics.max_abs_error:.3g}."
    )
