"""The findings of a comparison: the first wrong layer, drift, faults of outputs, overflow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gpunn.comparison.metrics import F16_MAX, Health
from gpunn.comparison.result import Check, Finding, Layer, LayerSide, Pair
from gpunn.types import Shape
from gpunn.wording import counted


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


def _share(count: int, elements: int, one: str, many: str) -> str:
    """Say what holds for some of the elements: a verb in the singular and in the plural."""
    share = f"({count / max(elements, 1):.2%})"
    return f"{count} of {counted(elements, 'element')} {share} {one if count == 1 else many}"


def _error(layer: Layer, check: Check) -> str:
    """Say how far a layer is off, which element is worst, and how many are wrong."""
    error, tolerance = f"{check.metrics.max_abs_error:.3g}", f"{check.tolerance:.3g}"
    if layer.quantised:
        error = counted(float(check.metrics.max_steps or 0), "step", form=".3g")
        tolerance = counted(check.tolerance, "step", form=".3g")
    worst, elements = _index(check.worst), (check.over, check.metrics.count)
    if check.metrics.unmatched:
        size = f"{_not_numbers(check.values)}, where the reference has others"
        over = _share(*elements, "is over its tolerance", "are over their tolerance")
        return f"{size}; the worst element is {worst}, and {over}"
    if check.tolerance == 0:
        over = _share(*elements, "differs", "differ")
        return f"off by up to {error}, where it must be equal; the worst element is {worst}, and {over}"
    over = _share(*elements, "is over its own", "are over theirs")
    return (
        f"off by up to {error}; the worst element is {worst}, with {check.ratio:.3g} times its tolerance of "
        f"{tolerance}, and {over}"
    )


def _not_numbers(values: Health) -> str:
    return f"{values.nan} NaN and {counted(values.inf, 'infinite value')}"


def _kernels(backend: str, layers: Sequence[Layer]) -> Iterator[Finding]:
    """Find the first layer that is wrong although its inputs are right."""
    wrong = [layer for layer in layers if (found := _side(layer, backend).isolated) and not found.ok]
    if wrong:
        first = wrong[0]
        check = _side(first, backend).isolated
        assert check is not None
        more = counted(len(wrong) - 1, "more layer is wrong", "more layers are wrong")
        others = f"; {more}" if len(wrong) > 1 else ""
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
            values = counted(output.metrics.unmatched, "value is", "values are")
            what = f"{values} finite, or there at all, on one side only"
        elif output.metrics.max_steps is not None:
            steps = counted(output.metrics.max_steps, "step")
            what = f"off by up to {steps}, tolerance {output.tolerance:.3g}"
        else:
            what = f"off by up to {output.metrics.max_abs_error:.3g}, tolerance {output.tolerance:.3g}"
        metrics = output.metrics
        text = (
            f"output {output.name!r} of {pair.candidate} against {pair.reference}: {what}; "
            f"the worst element is {_index(metrics.worst)}, and "
            f"{_share(metrics.different, metrics.count, 'differs', 'differ')}"
        )
        yield Finding("output", True, pair.candidate, None, text)


def _not_finite(layers: Sequence[Layer]) -> Iterator[Finding]:
    """Find the first layer with exact values that are not finite."""
    for layer in layers:
        if layer.values.nan or layer.values.inf:
            what = f"{_not_numbers(layer.values)} in exact arithmetic"
            yield Finding("not finite", False, "", layer.index, f"{_where(layer)} has {what}")
            return


def _half(layers: Sequence[Layer]) -> Iterator[Finding]:
    """Find every layer with values that do not fit float16."""
    for layer in layers:
        if layer.values.beyond_f16 and layer.dtype == "float32":
            beyond, values = layer.values.beyond_f16, counted(layer.values.count, "value")
            text = (
                f"{_where(layer)} reaches {layer.values.max_abs:.6g}: {beyond} of {values} "
                f"{'is' if beyond == 1 else 'are'} beyond float16's {F16_MAX:.0f}, too large where it is "
                "computed in half precision"
            )
            yield Finding("float16", False, "", layer.index, text)
