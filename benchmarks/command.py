"""The command line of a benchmark."""

from __future__ import annotations

from argparse import ArgumentParser, RawDescriptionHelpFormatter


def command(name: str, description: str | None) -> ArgumentParser:
    """Return the parser of `python -m benchmarks.NAME`, which shows the description as it is written."""
    return ArgumentParser(
        prog=f"python -m benchmarks.{name}",
        description=description,
        formatter_class=RawDescriptionHelpFormatter,
    )
