"""The command line of a benchmark."""

from __future__ import annotations

from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Callable

from gpunn.errors import GpunnError


def command(name: str, description: str | None) -> ArgumentParser:
    """Return the parser of `python -m benchmarks.NAME`, which shows the description as it is written."""
    return ArgumentParser(
        prog=f"python -m benchmarks.{name}",
        description=description,
        formatter_class=RawDescriptionHelpFormatter,
    )


def program(main: Callable[[], None]) -> None:
    """Run a benchmark as a program: what gpunn or the system refuses is a line on stderr, and exit code 1."""
    try:
        main()
    except (GpunnError, OSError) as error:
        raise SystemExit(str(error)) from None
