"""gpunn devices: the devices of this machine that can run models."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from rich.console import Console

import gpunn
from gpunn.cli.columns import Column, Row, print_table
from gpunn.cli.commands import subcommand
from gpunn.cli.show import json_text, plain, stdout
from gpunn.cli.wrap import say
from gpunn.comparison.elementary import FunctionError, elementary_errors
from gpunn.document import as_document

app = subcommand()

_LIMITS = re.compile("max-compute|max-buffer-size|m(ax|in)-(storage|uniform)-buffer")  # the rest: for drawing
_LEAST_COLUMNS = 24  # of a terminal, for the values of a device; where there are fewer, they are not aligned


@app.command()
def devices(
    accuracy: Annotated[
        bool, typer.Option("--accuracy", help="Measure the errors of elementary functions on each device.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document instead.")] = False,
) -> None:
    """List GPU adapters and the CPU, with drivers, limits and features.

    Limits that concern drawing are left out; --json has them too.

    --accuracy takes a few seconds for each device. max ulp: the largest error over all of float32, in units
    in the last place of the exact result; at x: where it is. tiny ulp: the largest for |x| < 2^-10. of
    allowed: the largest error relative to the tolerance that gpunn compare has for the operation.
    """
    found = gpunn.devices()
    errors = [_errors(device, number) if accuracy else None for number, device in enumerate(found)]
    if as_json:
        print(json_text({"devices": [_document(d, e) for d, e in zip(found, errors, strict=True)]}))
        return
    console = stdout()
    for number, (device, measured) in enumerate(zip(found, errors, strict=True)):
        _print_device(console, device, number)
        if measured is not None:
            _print_errors(console, measured)


def _errors(device: gpunn.DeviceInfo, number: int) -> tuple[FunctionError, ...]:
    on_gpu = device.backend == "webgpu"
    return elementary_errors(device.backend, number if on_gpu else None)


def _print_errors(console: Console, measured: Sequence[FunctionError]) -> None:
    headings = ("max ulp", "at x", "tiny ulp", "of allowed")
    columns = (Column("function"), *(Column(heading, number=True) for heading in headings))
    rows = [
        Row(tuple(map(plain, (e.op, _ulps(e.ulp), _place(e.at), _ulps(e.tiny_ulp), f"{e.share:.1%}"))))
        for e in measured
    ]
    print_table(console, columns, rows)
    console.print()


def _ulps(value: float) -> str:
    return f"{value:.1f}" if value < 1e4 else f"{value:.1e}"


def _place(arguments: Sequence[float]) -> str:
    return ", ".join(f"{argument:.4g}" for argument in arguments)


def _document(device: gpunn.DeviceInfo, errors: Sequence[FunctionError] | None) -> dict[str, Any]:
    measured = {} if errors is None else {"accuracy": as_document(errors)}
    return {
        **measured,
        "name": device.name,
        "backend": device.backend,
        "kind": device.kind,
        "driver": device.driver,
        "api": device.api,
        "pci": device.pci_id or None,
        "features": list(device.features),
        "limits": dict(device.limits),
    }


def _print_device(console: Console, device: gpunn.DeviceInfo, number: int) -> None:
    say(console, plain(device.name), f"{number}: ", "bold")
    facts = {
        "backend": device.backend,
        "kind": device.kind,
        "driver": device.driver or "-",
        "api": device.api or "-",
        "PCI id": device.pci_id or "-",
    }
    facts |= {name: f"{value:,}" for name, value in sorted(device.limits.items()) if _LIMITS.match(name)}
    width = max(map(len, facts)) + 2
    aligned = console.width >= width + _LEAST_COLUMNS
    for name, value in facts.items():
        if aligned:
            say(console, plain(value), f"{name:<{width}}")
        else:
            say(console, f"{name}: {plain(value)}")
    say(console, plain(", ".join(device.features) or "-"), "features: ")
    console.print()
