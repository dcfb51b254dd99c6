"""The subcommands: their names, and modules that are imported when they are asked for."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

# What `gpunn --help` says of each. It is the only command of the `app` in the module of its name.
SHORT_HELP = {
    "classify": "Name what photos show.",
    "compare": "Compare the answers of backends, layer by layer.",
    "bench": "Measure latency and throughput, beside other libraries.",
    "inspect": "Show a model's operators, shapes, placement and memory.",
    "profile": "Show the time of every operation of a model.",
    "tune": "Measure and remember the quickest kernels for a model.",
    "finetune": "Retrain a classifier on your own photos.",
    "devices": "List GPU adapters and the CPU, with their limits.",
}


def subcommand() -> typer.Typer:
    """Return the `app` of a subcommand's module."""
    return typer.Typer(add_completion=False, rich_markup_mode=None)


def load(name: str) -> Any:
    """Import a subcommand; return it as a command for Typer."""
    return get_command(import_module(f"gpunn.cli.{name}").app)


class Subcommands(TyperGroup):
    """A group of these subcommands, of which it imports only the one that is run, completed or explained."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        for name, text in SHORT_HELP.items():
            self.add_command(TyperCommand(name, short_help=text, rich_markup_mode=None))

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        name, _, rest = super().resolve_command(ctx, args)
        return name, None if name is None else load(name), rest
