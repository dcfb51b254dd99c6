"""gpunn devices: the devices of this machine that can run models."""

from __future__ import annotations

import re
from typing import Annotated, Any

import typer
from rich.console import Console

import gpunn
from gpunn.cli.show import json_text, plain, stdout, table

_LIMITS = re.compile("max-compute|max-buffer-size|m(ax|in)-(storage|uniform)-buffer")  # the rest: for drawing


def devices(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document instead.")] = False,
) -> None:
    """List GPU adapters and the CPU, with drivers, limits and features.

    Limits that concern drawing are left out; --json has them too.
    """
    found = gpunn.devices()
    if as_json:
        print(json_text({"devices": [_document(d) for d in found]}))
        return
    console = stdout()
    for number, device in enumerate(found):
        _print_device(console, device, number)


def _document(device: gpunn.DeviceInfo) -> dict[str, Any]:
    return {
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
    console.print(plain(f"{number}: {device.name}"), style="bold", soft_wrap=True)
    facts = table("", "")
    facts.show_header = False
    facts.add_row("backend", plain(device.backend))
    facts.add_row("kind", plain(device.kind))
    facts.add_row("driver", plain(device.driver or "-"))
    facts.add_row("api", plain(device.api or "-"))
    facts.add_row("PCI id", plain(device.pci_id or "-"))
    for name, value in sorted(device.limits.items()):
        if _LIMITS.match(name):
            facts.add_row(plain(name), f"{value:,}")
    console.print(facts)
    console.print(plain(f"features: {', '.join(device.features) or '-'}"), soft_wrap=True)
    console.print()
