"""The text of gpunn compare: the errors of outputs, of layers and of tensors, and the findings."""

from __future__ import annotations

import itertools
from collections.abc import Callable

from rich.console import Console
from rich.text import Text

from gpunn.cli.columns import Column, Row, print_table
from gpunn.cli.operations import LEAST_NAME, LEAST_PLACE, places
from gpunn.cli.pixels import OPTION
from gpunn.cli.show import plain
from gpunn.cli.text import remark
from gpunn.cli.wrap import say
from gpunn.comparison import figures
from gpunn.comparison.classes import Share
from gpunn.comparison.result import Check, Comparison, Layer, OutputPair, Pair
from gpunn.files import describe_skipped
from gpunn.wording import counted

_MODES = "isolated", "accumulated"
_MODES_SAID = (
    "errors as shares of the tolerance; isolated: with exact inputs, accumulated: with the backend's own"
)
_OutputCell = Callable[[Pair, OutputPair], str]


def print_comparison(console: Console, found: Comparison, other: str | None, every: bool) -> None:
    """Print a comparison. other: the name of the other file, if there is one. every: also rare columns."""
    reference = found.sides[0]
    say(console, plain(found.model), style="bold")
    runs = counted(found.inputs.samples, "run")
    say(console, plain(f"{runs}: {found.inputs.description}"), "inputs     ")
    if found.inputs.pixels is not None:
        say(console, plain(found.inputs.pixels.described(OPTION)), "           ")
    say(console, plain(f"{reference.name}: {reference.device}"), "reference  ")
    for side in found.sides[1:]:
        say(console, plain(f"{side.name}: {side.device}"), "backend    ")
    console.print()
    _print_outputs(console, found, every)
    if found.accuracy:
        console.print()
        _print_accuracy(console, found)
    if found.layers:
        console.print()
        _print_layers(console, found, every)
    if found.layer_pairs:
        console.print()
        _print_layer_pairs(console, found, every)
    elif found.layers and other is not None:
        console.print()
        say(console, plain(f"no tensors of {found.model} and {other} match by name, or by order and shape"))
    console.print()
    for finding in found.findings:
        style = "bold red" if finding.fault else "yellow"
        say(console, Text.assemble((f"{finding.kind}: ", style), plain(finding.text)))
    judged = "every layer and output" if found.layers else "every output"
    if not found.ok and not found.layers:
        say(console, "--per-layer says which layer is wrong", style="yellow")
    if found.ok:
        say(console, f"{judged} is within its tolerance", style="green")
    if left := describe_skipped(len(found.inputs.skipped), found.inputs.unreadable):
        remark(left)


def _print_outputs(console: Console, found: Comparison, every: bool) -> None:
    """Print the errors of the outputs: one table, or one for each pair if there are several outputs."""
    columns = _output_columns(found)
    rows = [[_output_row(columns, pair, output) for output in pair.outputs] for pair in found.pairs]
    single = max(map(len, rows), default=0) <= 1
    for number, part in enumerate([list(itertools.chain(*rows))] if single else rows):
        if number:
            console.print()
        print_table(console, [*columns], part, every=every)


def _output_columns(found: Comparison) -> dict[Column, _OutputCell]:
    """Return the columns of the table of outputs, with what they say of one."""
    outputs = [output for pair in found.pairs for output in pair.outputs]
    whole = not any(output.candidate.nan or output.candidate.inf for output in outputs)
    failed = any(output.ok is False for output in outputs)
    several = len({output.name for output in outputs}) > 1
    k = next((pair.agreement.k for pair in found.pairs if pair.agreement), None)
    columns: dict[Column, _OutputCell] = {
        Column("pair", least=LEAST_NAME, shared=several): lambda p, o: f"{p.candidate} - {p.reference}"
    }
    if several:
        columns[Column("output", least=LEAST_NAME)] = lambda p, o: o.name
    columns |= {
        Column("max error", number=True): lambda p, o: figures.largest_error(o.metrics),
        Column("of allowed", number=True): lambda p, o: figures.share_of_allowed(o),
        Column("mean error", number=True, rare=True): lambda p, o: f"{o.metrics.mean_abs_error:.3g}",
        Column("RMSE", number=True): lambda p, o: f"{o.metrics.rmse:.3g}",
        Column("cosine", number=True): lambda p, o: figures.number(o.metrics.cosine, ".7f"),
        Column("Pearson", number=True, rare=True): lambda p, o: figures.number(o.metrics.pearson, ".7f"),
        Column("SNR dB", number=True): lambda p, o: figures.number(o.metrics.snr_db, ".1f"),
        Column("PSNR dB", number=True, rare=True): lambda p, o: figures.number(o.metrics.psnr_db, ".1f"),
    }
    if k is not None:
        columns[Column("top-1", number=True)] = lambda p, o: f"{p.agreement.top1:.1%}" if p.agreement else "-"
        columns[Column(f"top-{k}", number=True)] = lambda p, o: (
            f"{p.agreement.top_k:.1%}" if p.agreement else "-"
        )
    return columns | {
        Column("NaN", number=True, rare=whole): lambda p, o: str(o.candidate.nan),
        Column("Inf", number=True, rare=whole): lambda p, o: str(o.candidate.inf),
        Column("verdict", sentences=True, shared=not failed): lambda p, o: (
            "not judged" if o.ok is None else "" if o.ok else "over its tolerance"
        ),
    }


def _output_row(columns: dict[Column, _OutputCell], pair: Pair, output: OutputPair) -> Row:
    cells = (plain(cell(pair, output)) for cell in columns.values())
    return Row(tuple(cells), "bold red" if output.ok is False else "")


def _print_accuracy(console: Console, found: Comparison) -> None:
    columns = (
        Column("accuracy", least=LEAST_NAME),
        Column("top-1"),
        Column("95 % interval"),
        Column(f"top-{found.accuracy[0].k}"),
        Column("95 % interval"),
    )
    cells = ((row.backend, *_interval(row.top1), *_interval(row.top_k)) for row in found.accuracy)
    print_table(console, columns, [Row(tuple(map(plain, row))) for row in cells])


def _interval(share: Share) -> tuple[str, str]:
    return f"{share.value:.1%} ({share.hits} of {share.count})", f"{share.low:.1%} to {share.high:.1%}"


def _print_layers(console: Console, found: Comparison, every: bool) -> None:
    """Print the errors of the layers as shares of their tolerances, in both modes."""
    layers = found.layers
    where = places([layer.origin for layer in layers], found.model)
    names = [side.backend for side in layers[0].sides]
    columns = [
        Column("#", number=True),
        Column("operation", least=LEAST_NAME),
        Column("dtype", shared=True, spare=4),
        Column("result", spare=2),
        Column("max |x|", number=True, rare=True),
    ]
    for name in names:
        for number, mode in enumerate(_MODES):
            columns.append(Column(f"{name} {mode}", number=True, spare=number))
            columns.append(Column(f"{name} {mode} error", number=True, rare=True))
    columns.append(Column(where.heading, least=LEAST_PLACE, spare=3))
    rows = []
    for layer, place in zip(layers, where.cells, strict=True):
        cells = (
            str(layer.index),
            layer.called,
            layer.dtype,
            "x".join(map(str, layer.shape)),
            f"{layer.values.max_abs:.3g}",
            *_checks(layer),
            place,
        )
        wrong = any(side.isolated is not None and not side.isolated.ok for side in layer.sides)
        rows.append(Row(tuple(map(plain, cells)), "bold red" if wrong else ""))
    say(console, _MODES_SAID, style="dim")
    print_table(console, columns, rows, every=every)


def _checks(layer: Layer) -> list[str]:
    """Return each backend's error in each mode, as a share of the tolerance and as a number."""
    return [
        text
        for side in layer.sides
        for check in (side.isolated, side.accumulated)
        for text in (_share(check), "-" if check is None else figures.largest_error(check.metrics, ".1e"))
    ]


def _share(check: Check | None) -> str:
    if check is None:
        return "-"
    return "equal" if check.metrics.identical else figures.ratio(check.ratio)


def _print_layer_pairs(console: Console, found: Comparison, every: bool) -> None:
    columns = (
        Column("tensor", least=LEAST_NAME),
        Column("in the other file", least=LEAST_NAME),
        Column("shape"),
        Column("paired by", shared=True, spare=1),
        Column("max error", number=True),
        Column("RMSE", number=True, spare=2),
        Column("cosine", number=True),
    )
    rows = [
        (
            pair.name,
            pair.other,
            str(list(pair.shape)),
            pair.by,
            f"{pair.metrics.max_abs_error:.3g}",
            f"{pair.metrics.rmse:.3g}",
            figures.number(pair.metrics.cosine, ".7f"),
        )
        for pair in found.layer_pairs
    ]
    print_table(console, columns, [Row(tuple(map(plain, cells))) for cells in rows], every=every)
