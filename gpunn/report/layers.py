"""The plot of every layer's error: one panel for each backend, drawn as SVG.

Heights are pixels. Widths stretch with the page: places along the layers are percentages. Paths are WIDTH
units wide in a picture that stretches, with strokes that do not.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gpunn.comparison import figures
from gpunn.comparison.result import Check, Comparison, Layer, LayerSide
from gpunn.report.axis import LogAxis, Tick, log_axis
from gpunn.wording import counted, shortened

HEIGHT = 280.0
WIDTH = 1000.0
MAX_NUMBERS = 10  # of layers below the plot
DOT = "h.5"  # a short stroke whose ends make a dot; one of no length, or nearly, is not printed
NAME = 80  # characters of a layer's name beside the pointer; a thousand layers say it for each backend
MODES = "isolated", "accumulated"


@dataclass(frozen=True, slots=True)
class Series:
    """The errors of one mode as SVG paths: all errors, the errors over their tolerance, the line that joins
    them, and the tolerances, unless they are one common line.
    """

    mode: str
    points: str
    over: str
    line: str
    tolerance: str


@dataclass(frozen=True, slots=True)
class Marker:
    """The place of the first layer over its tolerance, `x` in percent."""

    x: float
    y: float
    label: str


@dataclass(frozen=True, slots=True)
class View:
    """A panel in one unit: "tolerances" or "absolute". limit: the height of a tolerance common to all."""

    unit: str
    ticks: Sequence[Tick]
    zero: float
    infinity: float | None
    limit: float | None
    series: Sequence[Series]
    marker: Marker | None


@dataclass(frozen=True, slots=True)
class Column:
    """The strip of one layer, in percent of the width, and its text under the pointer."""

    x: float
    width: float
    text: str


@dataclass(frozen=True, slots=True)
class Panel:
    """The plot of one backend. numbers: percent and index of some layers."""

    backend: str
    height: float
    width: float
    description: str
    views: Sequence[View]
    columns: Sequence[Column]
    numbers: Sequence[tuple[float, int]]


def panels(found: Comparison) -> list[Panel]:
    """Make a Panel for each backend that was compared layer by layer; all have the same axes."""
    checks = [c for layer in found.layers for side in layer.sides for c in _checks(side) if c is not None]
    relative = log_axis([*(check.ratio for check in checks), 0.1, 1.0], HEIGHT)
    absolute = log_axis([*map(absolute_error, checks), *(_tolerance(c) or 0 for c in checks)], HEIGHT)
    count = len(found.layers[0].sides) if found.layers else 0
    return [_panel(found, number, relative, absolute) for number in range(count)]


def absolute_error(check: Check) -> float:
    """Return the largest error; infinite if values are finite on one side only."""
    return math.inf if check.metrics.unmatched else check.metrics.max_abs_error


def first_over(found: Comparison, backend: str) -> int | None:
    """Return the position of the first layer that is wrong isolated, else of the first over its
    tolerance.
    """
    for mode in MODES:
        for position, layer in enumerate(found.layers):
            check = next(getattr(side, mode) for side in layer.sides if side.backend == backend)
            if check is not None and not check.ok:
                return position
    return None


def _checks(side: LayerSide) -> tuple[Check | None, Check | None]:
    return side.isolated, side.accumulated


def _tolerance(check: Check) -> float | None:
    """Return the tolerance in the tensor's unit; None if it is stated in steps."""
    return check.tolerance if check.metrics.max_steps is None else None


def _panel(found: Comparison, number: int, relative: LogAxis, absolute: LogAxis) -> Panel:
    layers = found.layers
    sides = [layer.sides[number] for layer in layers]
    backend = sides[0].backend
    width = 100 / len(layers)
    columns = [
        Column(k * width, width, _text(layer, side))
        for k, (layer, side) in enumerate(zip(layers, sides, strict=True))
    ]
    first = first_over(found, backend)
    return Panel(
        backend=backend,
        height=HEIGHT,
        width=WIDTH,
        description=_description(layers, sides, first),
        views=(
            _view("tolerances", layers, sides, relative, lambda c: c.ratio, first),
            _view("absolute", layers, sides, absolute, absolute_error, first),
        ),
        columns=columns,
        numbers=_numbers(layers),
    )


def _view(
    unit: str,
    layers: Sequence[Layer],
    sides: Sequence[LayerSide],
    axis: LogAxis,
    measure: Callable[[Check], float],
    first: int | None,
) -> View:
    common = unit == "tolerances"
    by_mode = list(zip(*map(_checks, sides), strict=True))
    series = [
        _series(mode, checks, axis, measure, with_tolerances=not common)
        for mode, checks in zip(MODES, by_mode, strict=True)
    ]
    measured = [measure(check) for checks in by_mode for check in checks if check is not None]
    marker = None
    if first is not None:
        wrong = next(c for c in _checks(sides[first]) if c is not None and not c.ok)
        x = 100 * (first + 0.5) / len(layers)
        label = f"layer {layers[first].index}, {layers[first].called}"
        marker = Marker(x, axis.y(measure(wrong)), label)
    return View(
        unit=unit,
        ticks=axis.ticks(),
        zero=axis.y(0),
        infinity=axis.y(math.inf) if math.inf in measured else None,
        limit=axis.y(1) if common else None,
        series=series,
        marker=marker,
    )


def _series(
    mode: str,
    checks: Sequence[Check | None],
    axis: LogAxis,
    measure: Callable[[Check], float],
    with_tolerances: bool,
) -> Series:
    step = WIDTH / len(checks)
    places = [
        (check, f"{(k + 0.5) * step:.4g} {axis.y(measure(check)):.4g}")
        for k, check in enumerate(checks)
        if check is not None
    ]
    return Series(
        mode=mode,
        points="".join(f"M{place}{DOT}" for _, place in places),
        over="".join(f"M{place}{DOT}" for check, place in places if not check.ok),
        line="M" + "L".join(place for _, place in places) if places else "",
        tolerance=_steps(checks, axis, step) if with_tolerances else "",
    )


def _steps(checks: Sequence[Check | None], axis: LogAxis, step: float) -> str:
    """Draw a horizontal line at the tolerance of each layer that has one; join neighbouring lines."""
    path, joined = [], False
    for k, check in enumerate(checks):
        tolerance = None if check is None else _tolerance(check)
        if tolerance:
            path.append(f"{'L' if joined else 'M'}{k * step:.4g} {axis.y(tolerance):.4g}h{step:.4g}")
        joined = bool(tolerance)
    return "".join(path)


def _numbers(layers: Sequence[Layer]) -> list[tuple[float, int]]:
    """Choose at most MAX_NUMBERS layers, a round number of places apart."""
    rough = len(layers) / MAX_NUMBERS
    decade = 10 ** max(0, math.ceil(math.log10(rough)) - 1) if rough > 1 else 1
    every = next(decade * k for k in (1, 2, 5, 10) if decade * k >= rough)
    return [(100 * (k + 0.5) / len(layers), layers[k].index) for k in range(0, len(layers), every)]


def _text(layer: Layer, side: LayerSide) -> str:
    lines = [f"{layer.index} {layer.called}", shortened(layer.name, NAME)]
    lines += [f"{mode}: {check_text(check)}" for mode, check in zip(MODES, _checks(side), strict=True)]
    return "\n".join(lines)


def check_text(check: Check | None) -> str:
    """Describe an error and its share of the tolerance."""
    if check is None:
        return "not compared"
    if check.metrics.identical:
        return "equal"
    if check.metrics.unmatched:
        return f"{check.values.nan} NaN, {check.values.inf} infinite"
    return f"{figures.largest_error(check.metrics)} ({figures.of_tolerance(check.ratio)})"


def _description(layers: Sequence[Layer], sides: Sequence[LayerSide], first: int | None) -> str:
    """Describe the plot in words."""
    parts = [f"{counted(len(layers), 'layer')} from left to right, on a logarithmic axis"]
    for mode, checks in zip(MODES, zip(*map(_checks, sides), strict=True), strict=True):
        judged = [(check.ratio, k) for k, check in enumerate(checks) if check is not None]
        if judged:
            worst, k = max(judged, key=lambda item: (item[0], -item[1]))
            over = sum(value > 1 for value, _ in judged)
            parts.append(
                f"{mode}: at most {figures.of_tolerance(worst)}, in layer {layers[k].index}, "
                f"{layers[k].called}; {over} over it"
            )
    if first is not None:
        parts.append(f"the first over its tolerance is layer {layers[first].index}, {layers[first].called}")
    return ". ".join(parts) + "."
