"""gpunn devices: the devices of this machine that can run models."""

from __future__ import annotations

import re
from typing import Annotated, Any

import typer
from rich.console import Console

import gpunn
from gpunn.cli.show import json_text, plain, stdout
from gpunn.cli.wrap import say

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
    for name, value in facts.items():
        say(console, plain(value), f"{name:<{width}}")
    say(console, plain(", ".join(device.features) or "-"), "features: ")
    console.print()
