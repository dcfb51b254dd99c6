"""gpunn inspect: what a model holds, where each operation runs and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated, Any

import typer
from rich.console import Console

import gpunn
from gpunn.backends.webgpu import shader
from gpunn.cli.columns import Column, Row, print_table
from gpunn.cli.commands import subcommand
from gpunn.cli.operations import LEAST_NAME, LEAST_PLACE, Cells, called, places, results
from gpunn.cli.show import (
    AllColumns,
    BackendName,
    DeviceName,
    ModelFile,
    PreferenceName,
    Relaxed,
    Shapes,
    input_shapes,
    json_text,
    plain,
    size,
    stdout,
)
from gpunn.cli.wrap import say
from gpunn.graph.graph import Graph
from gpunn.graph.operation import Operand, Operation
from gpunn.graph.parts import walk
from gpunn.graph.pixels import PixelScale
from gpunn.graph.scores import Scoring

app = subcommand()

LEAST_RESULT = 24  # columns of the terminal for the types of an operation's results


@app.command()
def inspect(
    model: ModelFile,
    plan: Annotated[
        bool,
        typer.Option("--plan", help="Also list each GPU dispatch: kernel body, grid, why this variant."),
    ] = False,
    shapes: Shapes = None,
    wgsl: Annotated[
        int | None,
        typer.Option(
            "--wgsl",
            metavar="N",
            show_default=False,
            help="Print only the shader of dispatch N of --plan, as the driver compiles it; with --json it "
            "is in the document.",
        ),
    ] = None,
    backend: Annotated[
        BackendName | None,
        typer.Option(
            help="Where the model would run.  [default: webgpu with --plan or --wgsl, else auto]",
            show_default=False,
        ),
    ] = None,
    device: DeviceName = None,
    preference: Annotated[
        PreferenceName,
        typer.Option(help="What the model would be compiled for; sustained-speed measures kernels."),
    ] = "fast-single-answer",
    relaxed: Relaxed = False,
    every: AllColumns = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document instead.")] = False,
) -> None:
    """Show a model's operators, shapes, placement with reasons, and memory.

    The operations listed are those that run: after constants are folded and operations are fused.
    """
    network = gpunn.load(model)
    if shapes:
        network = network.reshaped(input_shapes(shapes))
    chosen = backend or ("webgpu" if plan or wgsl is not None else "auto")
    with network.compile(chosen, preference, relaxed=relaxed, device=device) as compiled:
        document = _document(network, compiled, plan)
        if wgsl is not None:
            document["wgsl"] = _shader(compiled, wgsl)
    if as_json:
        print(json_text(document))
    elif "wgsl" in document:
        _print_shader(document["wgsl"])
    else:
        _print_document(stdout(), document, every)


def _document(model: Graph, compiled: gpunn.Compilation, plan: bool) -> dict[str, Any]:
    models = list(walk(model))
    operands = {o for m in models for o in m.operands()}
    names = [o.op for m in models for o in m.operations] + [e.op for m in models for e in m.pending]
    document: dict[str, Any] = {
        "model": model.name,
        "inputs": [_tensor(o) if o.default is None else _optional(o) for o in model.inputs],
        "outputs": [_tensor(o) for o in model.outputs],
        "labels": len(model.labels),
        "pixel_scale": None if model.pixel_scale is None else asdict(model.pixel_scale),
        "scoring": None if model.scoring is None else _scoring(model.scoring),
        "warnings": list(model.warnings),
        "operators": dict(Counter(names).most_common()),
        "stops": model.pending[0].where if model.pending else None,
        "constant_bytes": sum(o.type.nbytes for o in operands if o.value is not None),
        "backend": compiled.backend,
        "device": compiled.device,
        "placement": [
            {
                **_operation(row.operation),
                "backend": row.backend,
                "reason": row.reason,
                "depth": row.depth,
            }
            for row in compiled.placement
        ],
        "memory": {name: value for name, value in asdict(compiled.stats).items() if name in _MEMORY},
    }
    if plan:
        document["plan"] = [
            {
                **_operation(row.operation),
                "prepended": [_named(operation) for operation in row.prepended],
                "appended": [_named(operation) for operation in row.appended],
                "kernel": row.kernel.name,
                "groups": list(row.kernel.groups),
                "workgroup": list(row.kernel.workgroup),
                "reason": row.kernel.reason,
                "bundle": row.bundle,
            }
            for row in compiled.plan_rows()
        ]
    return document


def _shader(compiled: gpunn.Compilation, dispatch: int) -> dict[str, Any]:
    """Return the source of a dispatch and the origin of its lines. Raises BadParameter for a wrong number."""
    rows = compiled.plan_rows()
    if compiled.backend != "webgpu":
        raise typer.BadParameter(f"--wgsl needs backend webgpu: {compiled.backend} compiles no shaders")
    if not 0 <= dispatch < len(rows):
        numbers = f"the dispatches are 0 to {len(rows) - 1}" if rows else "the model has no GPU dispatch"
        raise typer.BadParameter(f"there is no dispatch {dispatch}: {numbers}")
    row = rows[dispatch]
    parts = shader.parts(shader.key_of(row.kernel, row.operation))
    return {
        "dispatch": dispatch,
        **_operation(row.operation),
        "prepended": [_named(operation) for operation in row.prepended],
        "appended": [_named(operation) for operation in row.appended],
        "kernel": row.kernel.name,
        "bundle": row.bundle,
        "parts": [{"file": p.file or None, "first_line": p.first, "lines": p.lines} for p in parts],
        "source": "\n".join(p.text for p in parts),
    }


_MEMORY = {  # counters of gpunn.backends.base.Stats and what they are for people
    "resident_bytes": "constants on the device",
    "arena_bytes": "intermediates on the device",
    "peak_live_bytes": "of these alive at once, at most",
    "state_bytes": "state that stays on the device between runs",
    "staging_bytes": "staging for results",
}


def _tensor(operand: Operand) -> dict[str, Any]:
    return {
        "name": operand.name,
        "dtype": operand.type.dtype.value,
        "shape": list(operand.type.shape),
        "declared": operand.declared,
        "bytes": operand.type.nbytes,
    }


def _optional(operand: Operand) -> dict[str, Any]:
    return {**_tensor(operand), "default": operand.default}


def _named(operation: Operation) -> dict[str, Any]:
    return {"op": operation.op, "origin": operation.origin, "activation": operation.activation}


def _operation(operation: Operation) -> dict[str, Any]:
    return {
        **_named(operation),
        "inputs": [str(i.type) for i in operation.inputs if i is not None and i.value is None],
        "outputs": [str(o.type) for o in operation.outputs],
    }


def _scoring(scoring: Scoring) -> dict[str, Any]:
    return {"calibrated": scoring.calibration is not None, "threshold": scoring.threshold}


def _scoring_said(scoring: dict[str, Any]) -> str:
    """Say what a file states of a classifier's scores."""
    threshold = scoring["threshold"]
    parts = ["calibrated"] if scoring["calibrated"] else []
    parts += [] if threshold is None else [f"nothing is known for sure below {threshold:g}"]
    return ", ".join(parts)


def _print_document(console: Console, document: dict[str, Any], every: bool) -> None:
    say(console, plain(document["model"]), style="bold")
    for role in ("inputs", "outputs"):
        for tensor in document[role]:
            what = f"{tensor['name']} {tensor['declared']}"
            what += f", default {tensor['default']:g}" if "default" in tensor else ""
            say(console, plain(what), f"{role[:-1]:<9}")
    say(console, str(document["labels"] or "none"), "labels   ")
    if document["pixel_scale"] is not None:
        say(console, str(PixelScale(**document["pixel_scale"])), "pixels   ")
    if document["scoring"] is not None:
        say(console, plain(_scoring_said(document["scoring"])), "scores   ")
    for warning in document["warnings"]:
        say(console, plain(warning), "warning  ")
    counts = ", ".join(f"{count} {op}" for op, count in document["operators"].items())
    known = "in the file" if document["stops"] is None else "up to where shapes depend on values"
    say(console, plain(f"operators {known}: {counts}"))
    say(console, f"constants in the file: {size(document['constant_bytes'])}")
    console.print()
    say(console, plain(f"operations on {document['device']}, backend {document['backend']}"), style="bold")
    _print_placement(console, document, every)
    console.print()
    for name, value in document["memory"].items():
        if value:
            say(console, f"{_MEMORY[name]}: {size(value)}")
    if "plan" in document:
        console.print()
        console.print("dispatches", style="bold")
        _print_plan(console, document, every)


def _print_shader(document: dict[str, Any]) -> None:
    """Print lines of `number place | code`: the compiler's number, and a library's file and own number.

    The body comes first, so its numbers are the compiler's; generated declarations are in no file.
    """
    lines = document["source"].split("\n")
    body, *others = document["parts"]
    places = [""] * body["lines"]
    for part in others:
        file = (part["file"] or "generated").removeprefix("shaders/")
        places += [f"{file}:{k}" if part["file"] else file for k in range(1, part["lines"] + 1)]
    width = max(map(len, places))
    print(f"// dispatch {document['dispatch']}: {_called(document)} ({document['origin']}), {body['file']}")
    if document["bundle"] is not None:
        print(f"// it runs inside bundle {document['bundle']}, whose shader has this arithmetic")
    for number, (place, line) in enumerate(zip(places, lines, strict=True), 1):
        print(f"{number:4} {place:<{width}} | {line}".rstrip())


def _print_placement(console: Console, document: dict[str, Any], every: bool) -> None:
    listed = document["placement"]
    types, where = _results(listed), places([row["origin"] for row in listed], document["model"])
    reasons = {row["reason"] for row in listed if row["backend"] == "cpu"}
    one = len(reasons) == 1 and "" not in reasons and len(listed) > 1
    if one:
        say(console, plain(next(iter(reasons))), "on cpu because ", "dim")
    columns = (
        Column("#", number=True),
        Column("operation", least=LEAST_NAME),
        Column(types.heading, least=LEAST_RESULT),
        Column("runs on", shared=True),
        Column("reason", sentences=True, shared=True, rare=one),
        Column(where.heading, least=LEAST_PLACE, spare=1),
    )
    rows = [
        (str(number), "  " * row["depth"] + _called(row), result, row["backend"], row["reason"], place)
        for number, (row, result, place) in enumerate(zip(listed, types.cells, where.cells, strict=True))
    ]
    print_table(console, columns, [Row(tuple(map(plain, cells))) for cells in rows], every=every)


def _print_plan(console: Console, document: dict[str, Any], every: bool) -> None:
    listed = document["plan"]
    types = _results(listed)
    bundled = [row["bundle"] for row in listed if row["bundle"] is not None]
    if bundled:
        parts = f"{len(bundled)} of {len(listed)} are parts of bundles"
        say(console, f"{parts}: one workgroup runs those of a bundle in a single dispatch", style="dim")
    columns = (
        Column("#", number=True),
        Column("bundle", number=True, shared=True, rare=not bundled),
        Column("operation", least=LEAST_NAME),
        Column(types.heading, least=LEAST_RESULT),
        Column("kernel", least=LEAST_NAME),
        Column("groups"),
        Column("workgroup", shared=True),
        Column("reason", sentences=True),
    )
    rows = [
        (
            str(number),
            "" if row["bundle"] is None else str(row["bundle"]),
            _called(row),
            result,
            row["kernel"],
            "x".join(map(str, row["groups"])),
            "x".join(map(str, row["workgroup"])),
            row["reason"],
        )
        for number, (row, result) in enumerate(zip(listed, types.cells, strict=True))
    ]
    print_table(console, columns, [Row(tuple(map(plain, cells))) for cells in rows], every=every)


def _called(row: dict[str, Any]) -> str:
    behind, before = (
        [(each["op"], each["activation"]) for each in row.get(key, ())] for key in ("appended", "prepended")
    )
    return called(row["op"], row["activation"], behind, before)


def _results(rows: Sequence[dict[str, Any]]) -> Cells:
    return results([row["outputs"] for row in rows])
