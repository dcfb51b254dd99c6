"""gpunn compare: how far backends are apart, output by output and layer by layer."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

import gpunn
from gpunn import vision
from gpunn.cli.pixels import Mean, PixelRange, Std, mean_and_std
from gpunn.cli.progress import progress_bars
from gpunn.cli.show import ModelFile, expanded, json_text, plain, stdout, table, words
from gpunn.comparison import figures
from gpunn.comparison.classes import Share
from gpunn.comparison.litert import RESOLVERS
from gpunn.comparison.result import Check, Comparison, OutputPair, Pair
from gpunn.comparison.sides import EXACT, RELAXED
from gpunn.importers import SUFFIXES

EXIT_DIFFERENT = 1


def compare(
    model: ModelFile,
    inputs: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[INPUTS]...",
            show_default=False,
            help="Photos, folders of photos, .npy or .npz files.  [default: random tensors]",
        ),
    ] = None,
    backends: Annotated[
        str,
        typer.Option(
            metavar="NAMES",
            help="Backends to compare, separated by commas: webgpu, cpu, cpu64, litert, litert-ref, "
            "or part of an adapter's name.",
        ),
    ] = "webgpu,cpu",
    reference: Annotated[
        str, typer.Option(metavar="NAME", help="The backend to compare with; cpu64 computes in float64.")
    ] = "cpu64",
    per_layer: Annotated[
        bool,
        typer.Option("--per-layer", help="Also compare every layer, with exact inputs and with its own."),
    ] = False,
    layer_samples: Annotated[
        int, typer.Option(metavar="N", min=1, help="Number of inputs for comparing layers.")
    ] = 1,
    relaxed: Annotated[
        bool, typer.Option("--relaxed", help="Also compare gpunn's backends with float32 stored as float16.")
    ] = False,
    truth: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="A folder of photos whose names state their classes, for accuracy."),
    ] = None,
    labels: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Class names, one on each line.  [default: those in the model file]"
        ),
    ] = None,
    other: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Another file of the same model, of any format, computed in float64."
        ),
    ] = None,
    save_layer: Annotated[
        int | None,
        typer.Option(metavar="N", min=0, help="Write layer N to a file, for gpunn compare FILE.npz."),
    ] = None,
    case: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The file of --save-layer.  [default: MODEL_layerN.npz]"),
    ] = None,
    tolerance: Annotated[
        float | None,
        typer.Option(
            metavar="ERROR", help="Largest absolute error of an output.  [default: the effect of rounding]"
        ),
    ] = None,
    pixels: PixelRange = None,
    mean: Mean = None,
    std: Std = None,
    random: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Number of random inputs.  [default: 4]")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the random inputs.")] = 0,
    report: Annotated[
        Path | None,
        typer.Option(metavar="FILE", show_default=False, help="Also write everything as one HTML page."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document instead.")] = False,
) -> int:
    """Compare backends on a model: outputs, best classes, accuracy, every layer.

    Exit code: 0 when every layer and output is within its tolerance, 1 when one is not, 2 on errors.
    """
    if random is not None and (inputs or truth):
        raise typer.BadParameter("random inputs and files exclude each other", param_hint="--random")
    scale = mean_and_std(pixels, mean, std)
    inputs = expanded(inputs or ())
    models = [path for path in inputs if path.suffix.lower() in SUFFIXES]
    if models:
        raise typer.BadParameter(f"{models[0]} is a model; compare it with --other {models[0]}")
    if save_layer is not None:
        case = case or Path(f"{model.stem}_layer{save_layer}.npz")
    elif case is not None:
        raise typer.BadParameter("which layer? Give --save-layer too", param_hint="--case")
    if report is not None and (report.is_dir() or not report.parent.is_dir()):
        raise typer.BadParameter(f"{report} is no file that can be written", param_hint="--report")
    loaded = None if labels is None else gpunn.load(model)
    with progress_bars(quiet=as_json) as told:
        found = gpunn.compare(
            model,
            inputs or random,
            _names(backends, relaxed),
            reference=reference,
            per_layer=per_layer,
            layer_samples=layer_samples,
            labels=() if loaded is None else vision.class_labels(loaded, labels),
            truth=truth,
            other=other,
            case=None if save_layer is None or case is None else (save_layer, case),
            tolerance=tolerance,
            mean=scale[0],
            std=scale[1],
            seed=seed,
            progress=told,
        )
    if report is not None:
        from gpunn.report import write_report  # templates take a while to import, and few runs need them

        write_report(found, report)
    if as_json:
        print(json_text(found.to_json()))
    else:
        _print(stdout(), found, None if other is None else other.name)
        if case is not None:
            stdout().print(plain(f"layer {save_layer} is in {case}: gpunn compare {case}"), soft_wrap=True)
        if report is not None:
            stdout().print(plain(f"report: {report}"), soft_wrap=True)
    return 0 if found.ok else EXIT_DIFFERENT


def _names(backends: str, relaxed: bool) -> list[str]:
    """Return the backends by name; with `relaxed`, also gpunn's own in relaxed form."""
    names = words(backends)
    ours = (name for name in names if name not in (EXACT, *RESOLVERS) and not name.endswith(RELAXED))
    return [*names, *(name + RELAXED for name in ours if relaxed)]


def _print(console: Console, found: Comparison, other: str | None) -> None:
    reference = found.sides[0]
    console.print(plain(found.model), style="bold")
    console.print(plain(f"inputs     {found.inputs.samples}: {found.inputs.description}"), soft_wrap=True)
    console.print(plain(f"reference  {reference.name}: {reference.device}"), soft_wrap=True)
    for side in found.sides[1:]:
        console.print(plain(f"backend    {side.name}: {side.device}"), soft_wrap=True)
    console.print()
    console.print(_outputs(found))
    if found.accuracy:
        console.print()
        console.print(_accuracy(found))
    if found.layers:
        console.print()
        console.print(_layers(found))
    if found.layer_pairs:
        console.print()
        console.print(_layer_pairs(found))
    elif found.layers and other is not None:
        console.print()
        console.print(plain(f"no tensors of {found.model} and {other} match by name, or by order and shape"))
    console.print()
    for finding in found.findings:
        style = "bold red" if finding.fault else "yellow"
        console.print(Text(f"{finding.kind}: ", style).append_text(plain(finding.text)), soft_wrap=True)
    judged = "every layer and output" if found.layers else "every output"
    if found.ok:
        console.print(f"{judged} is within its tolerance", style="green")
    if found.inputs.skipped:
        print(f"skipped {len(found.inputs.skipped)} files that are no photos", file=sys.stderr)


def _outputs(found: Comparison) -> Table:
    classes = any(pair.agreement for pair in found.pairs)
    names = len({output.name for pair in found.pairs for output in pair.outputs}) > 1
    numbers = ("max error", "of allowed", "mean error", "RMSE", "cosine", "Pearson", "SNR dB", "PSNR dB")
    agreement = ("top-1", f"top-{_k(found)}") if classes else ()
    columns = ("pair", *(("output",) if names else ()), *numbers, *agreement, "NaN", "Inf", "")
    shown = table(*columns, right=(*numbers, *agreement, "NaN", "Inf"))
    for pair in found.pairs:
        for output in pair.outputs:
            shown.add_row(*_output(found, pair, output, names, classes))
    return shown


def _k(found: Comparison) -> int:
    return next((pair.agreement.k for pair in found.pairs if pair.agreement), 0)


def _output(
    found: Comparison, pair: Pair, output: OutputPair, names: bool, classes: bool
) -> list[Text | str]:
    metrics = output.metrics
    row: list[Text | str] = [plain(f"{pair.candidate} - {pair.reference}")]
    row += [plain(output.name)] if names else []
    row += [
        figures.largest_error(metrics),
        figures.share_of_allowed(output),
        f"{metrics.mean_abs_error:.3g}",
        f"{metrics.rmse:.3g}",
    ]
    row += [figures.number(metrics.cosine, ".7f"), figures.number(metrics.pearson, ".7f")]
    row += [figures.number(metrics.snr_db, ".1f"), figures.number(metrics.psnr_db, ".1f")]
    if classes:
        agreement = pair.agreement
        row += [f"{agreement.top1:.1%}", f"{agreement.top_k:.1%}"] if agreement else ["-", "-"]
    row += [str(output.candidate.nan), str(output.candidate.inf)]
    if output.ok is None:
        return [*row, "not judged"]
    return [*row, "" if output.ok else Text("over its tolerance", "bold red")]


def _accuracy(found: Comparison) -> Table:
    shown = table("accuracy", "top-1", "95 % interval", f"top-{found.accuracy[0].k}", "95 % interval ")
    for row in found.accuracy:
        shown.add_row(plain(row.backend), *_interval(row.top1), *_interval(row.top_k))
    return shown


def _interval(share: Share) -> tuple[str, str]:
    return f"{share.value:.1%} ({share.hits} of {share.count})", f"{share.low:.1%} to {share.high:.1%}"


def _layers(found: Comparison) -> Table:
    names = [side.backend for side in found.layers[0].sides]
    modes = [f"{name} {mode}" for name in names for mode in ("alone", "in line")]
    shown = table(
        "#", "operation", "result", "max |x|", *modes, "in the file", right=("#", "max |x|", *modes)
    )
    for layer in found.layers:
        wrong = any(side.isolated is not None and not side.isolated.ok for side in layer.sides)
        shown.add_row(
            str(layer.index),
            plain(layer.called),
            plain(f"{layer.dtype}[{', '.join(map(str, layer.shape))}]"),
            f"{layer.values.max_abs:.3g}",
            *(_check(check) for side in layer.sides for check in (side.isolated, side.accumulated)),
            plain(layer.origin.removeprefix(f"{found.model}: ")),
            style="bold red" if wrong else None,
        )
    return shown


def _layer_pairs(found: Comparison) -> Table:
    numbers = "max error", "RMSE", "cosine"
    shown = table("tensor", "in the other file", "shape", "paired by", *numbers, right=numbers)
    for pair in found.layer_pairs:
        metrics = pair.metrics
        shown.add_row(
            plain(pair.name),
            plain(pair.other),
            plain(list(pair.shape)),
            pair.by,
            f"{metrics.max_abs_error:.3g}",
            f"{metrics.rmse:.3g}",
            figures.number(metrics.cosine, ".7f"),
        )
    return shown


def _check(check: Check | None) -> str:
    if check is None:
        return "-"
    if check.metrics.identical:
        return "equal"
    return f"{figures.largest_error(check.metrics, '.1e')} {figures.ratio(check.ratio):>6}"
