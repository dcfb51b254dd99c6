"""The findings of a comparison: the first wrong layer, drift, faults of outputs, overflow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gpunn.comparison.metrics import F16_MAX
from gpunn.comparison.result import Check, Finding, Layer, LayerSide, Pair
from gpunn.types import Shape


def find(layers: Sequence[Layer], pairs: Sequence[Pair], unlike: Sequence[str]) -> tuple[Finding, ...]:
    """List the findings, faults first. `unlike`: sides whose whole model differs from its single layers."""
    names = list(dict.fromkeys(side.backend for layer in layers for side in layer.sides))
    reference = pairs[0].reference if pairs else ""
    judged = [pair for pair in pairs if pair.reference == reference]
    return (
        *(found for name in names for found in _kernels(name, layers)),
        *(found for name in names for found in _drift(name, layers)),
        *(_plan(name) for name in unlike),
        *(found for pair in judged for found in _outputs(pair)),
        *_not_finite(layers),
        *_half(layers),
    )


def _side(layer: Layer, backend: str) -> LayerSide:
    return next(side for side in layer.sides if side.backend == backend)


def _where(layer: Layer) -> str:
    """Describe a layer by number, operation, tensor and place; converters join the names of fused tensors."""
    name = layer.name.partition(";")[0]
    return f"layer {layer.index}, {layer.called}, {name!r} ({layer.origin})"


def _shader(side: LayerSide) -> str:
    """Name the files that compute a layer on the GPU."""
    return f"; computed by {' and '.join(side.shaders)}" if side.shaders else ""


def _index(worst: Shape | None) -> str:
    if worst is None:
        return "not known, for the shapes differ"
    return f"[{', '.join(map(str, worst))}]" if worst else "the only one"


def _share(count: int, elements: int) -> str:
    return f"{count} of {elements} elements ({count / max(elements, 1):.2%})"


def _error(layer: Layer, check: Check) -> str:
    """Say how far a layer is off, which element is worst, and how many are wrong."""
    unit, error = "", check.metrics.max_abs_error
    if layer.quantised:
        unit, error = " steps", float(check.metrics.max_steps or 0)
    worst, over = _index(check.worst), _share(check.over, check.metrics.count)
    if check.metrics.unmatched:
        values = check.values
        size = f"{values.nan} NaN and {values.inf} infinite values, where the reference has others"
        return f"{size}; the worst element is {worst}, and {over} are over their tolerance"
    if check.tolerance == 0:
        size = f"off by up to {error:.3g}{unit}, where it must be equal"
        return f"{size}; the worst element is {worst}, and {over} differ"
    return (
        f"off by up to {error:.3g}{unit}; the worst element is {worst}, with {check.ratio:.3g} times its "
        f"tolerance of {check.tolerance:.3g}{unit}, and {over} are over theirs"
    )


def _kernels(backend: str, layers: Sequence[Layer]) -> Iterator[Finding]:
    """Find the first layer that is wrong although its inputs are right."""
    wrong = [layer for layer in layers if (found := _side(layer, backend).isolated) and not found.ok]
    if wrong:
        first = wrong[0]
        check = _side(first, backend).isolated
        assert check is not None
        others = f"; {len(wrong) - 1} more layers are wrong" if len(wrong) > 1 else ""
        text = (
            f"{_where(first)} is wrong on {backend}, isolated: {_error(first, check)}"
            f"{_shader(_side(first, backend))}{others}"
        )
        yield Finding("wrong kernel", True, backend, first.index, text)


def _drift(backend: str, layers: Sequence[Layer]) -> Iterator[Finding]:
    """Find the first layer that is wrong with the backend's own inputs."""
    for layer in layers:
        check = _side(layer, backend).accumulated
        if check is not None and not check.ok:
            text = (
                f"{backend} leaves the reference at {_where(layer)}, accumulated: {_error(layer, check)}"
                f"{_shader(_side(layer, backend))}"
            )
            yield Finding("drift", True, backend, layer.index, text)
            return


def _plan(backend: str) -> Finding:
    text = (
        f"{backend}: the whole model answers otherwise than its layers one by one, so what is between the "
        "kernels is wrong: memory, order or copies"
    )
    return Finding("plan", True, backend, None, text)


def _outputs(pair: Pair) -> Iterator[Finding]:
    for output in pair.outputs:
        if output.ok is not False:
            continue
        if output.metrics.unmatched:
            what = f"{output.metrics.unmatched} values are finite, or there at all, on one side only"
        elif output.metrics.max_steps is not None:
            what = f"off by up to {output.metrics.max_steps} steps, tolerance {output.tolerance:.3g}"
        else:
            what = f"off by up to {output.metrics.max_abs_error:.3g}, tolerance {output.tolerance:.3g}"
        metrics = output.metrics
        text = (
            f"output {output.name!r} of {pair.candidate} against {pair.reference}: {what}; "
            f"the worst element is {_index(metrics.worst)}, and "
            f"{_share(metrics.different, metrics.count)} differ"
        )
        yield Finding("output", True, pair.candidate, None, text)


def _not_finite(layers: Sequence[Layer]) -> Iterator[Finding]:
    """Find the first layer with exact values that are not finite."""
    for layer in layers:
        if layer.values.nan or layer.values.inf:
            what = f"{layer.values.nan} NaN and {layer.values.inf} infinite values in exact arithmetic"
            yield Finding("not finite", False, "", layer.index, f"{_where(layer)} has {what}")
            return


def _half(layers: Sequence[Layer]) -> Iterator[Finding]:
    """Find every layer with values that do not fit float16."""
    for layer in layers:
        if layer.values.beyond_f16 and layer.dtype == "float32":
            text = (
                f"{_where(layer)} reaches {layer.values.max_abs:.6g}: {layer.values.beyond_f16} of "
                f"{layer.values.count} values are beyond float16's {F16_MAX:.0f} and overflow where it is "
                "computed in half precision"
            )
            yield Finding("float16", False, "", layer.index, text)
