"""gpunn compare: how far backends are apart, output by output and layer by layer."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Annotated

import typer

import gpunn
from gpunn import vision
from gpunn.cli.commands import subcommand
from gpunn.cli.comparison import print_comparison
from gpunn.cli.complete import listed
from gpunn.cli.paths import files
from gpunn.cli.pixels import Mean, PixelRange, Std, mean_and_std
from gpunn.cli.progress import progress_bars
from gpunn.cli.show import AllColumns, DeviceName, LabelsFile, ModelFile, json_text, plain, stdout, words
from gpunn.comparison.litert import RESOLVERS
from gpunn.comparison.sides import EXACT, RELAXED
from gpunn.files import expect_writable
from gpunn.importers import SUFFIXES

app = subcommand()

EXIT_DIFFERENT = 1
BACKENDS = ("webgpu", "cpu", EXACT, *RESOLVERS)


@app.command()
def compare(
    model: ModelFile,
    inputs: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="INPUTS",
            show_default=False,
            callback=files,
            help="Photos, folders of photos, .npy or .npz files, - for one from standard input.  "
            "[default: random tensors]",
        ),
    ] = None,
    backends: Annotated[
        str,
        typer.Option(
            metavar="NAMES",
            autocompletion=listed(BACKENDS, devices=True),
            help="Backends to compare, separated by commas: webgpu, cpu, cpu64, litert, litert-ref, "
            "or GPUs as for --device.",
        ),
    ] = "webgpu,cpu",
    reference: Annotated[
        str, typer.Option(metavar="NAME", help="The backend to compare with; cpu64 computes in float64.")
    ] = "cpu64",
    device: DeviceName = None,
    per_layer: Annotated[
        bool,
        typer.Option(
            "--per-layer",
            help="Also compare every layer: isolated, with exact inputs, and accumulated, with the backend's "
            "own.",
        ),
    ] = False,
    layer_samples: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=1, show_default=False, help="Number of inputs for --per-layer.  [default: 1]"
        ),
    ] = None,
    relaxed: Annotated[
        bool, typer.Option("--relaxed", help="Also compare gpunn's backends with float32 stored as float16.")
    ] = False,
    truth: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="A folder of photos whose names state their classes, for accuracy."),
    ] = None,
    labels: LabelsFile = None,
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
    seed: Annotated[int, typer.Option(metavar="N", min=0, help="Seed of the random inputs.")] = 0,
    report: Annotated[
        Path | None,
        typer.Option(metavar="FILE", show_default=False, help="Also write everything as one HTML page."),
    ] = None,
    every: AllColumns = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document instead.")] = False,
) -> int:
    """Compare backends on a model: outputs, best classes, accuracy, every layer.

    Exit code: 0 when every layer and output is within its tolerance, 1 when one is not, 2 on errors.
    """
    if random is not None and (inputs or truth):
        raise typer.BadParameter("random inputs and files exclude each other", param_hint="--random")
    if layer_samples is not None and not per_layer:
        raise typer.BadParameter("layers are compared with --per-layer", param_hint="--layer-samples")
    scale = mean_and_std(pixels, mean, std)
    models = [path for path in inputs or () if path.suffix.lower() in SUFFIXES]
    if models:
        raise typer.BadParameter(f"{models[0]} is a model; compare it with --other {models[0]}")
    if save_layer is not None:
        case = case or Path(f"{model.stem}_layer{save_layer}.npz")
    elif case is not None:
        raise typer.BadParameter("which layer? Give --save-layer too", param_hint="--case")
    if report is not None:
        expect_writable(report)
    loaded = None if labels is None else gpunn.load(model)
    with progress_bars(quiet=as_json) as told:
        found = gpunn.compare(
            model,
            inputs or random,
            _names(backends, device, relaxed),
            reference=reference,
            per_layer=per_layer,
            layer_samples=layer_samples or 1,
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
        print_comparison(stdout(), found, None if other is None else other.name, every)
        if case is not None:
            file = shlex.quote(f"./{case}" if str(case).startswith("-") else str(case))
            stdout().print(plain(f"layer {save_layer} is in {case}: gpunn compare {file}"), soft_wrap=True)
        if report is not None:
            stdout().print(plain(f"report: {report}"), soft_wrap=True)
    return 0 if found.ok else EXIT_DIFFERENT


def _names(backends: str, device: str | None, relaxed: bool) -> list[str]:
    """Return the backends by name, a device for webgpu; with `relaxed`, also gpunn's own in relaxed form."""
    names = [
        name if device is None else re.sub(f"^webgpu(?=$|{RELAXED}$)", lambda _: device, name)
        for name in words(backends)
    ]
    ours = (name for name in names if name not in (EXACT, *RESOLVERS) and not name.endswith(RELAXED))
    return [*names, *(name + RELAXED for name in ours if relaxed)]
