"""The gpunn command: one module per subcommand, errors as one line and exit code 2."""

from __future__ import annotations

import io
import logging
import os
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

import gpunn
from gpunn.cli.commands import Subcommands
from gpunn.cli.paths import remove_copies, said
from gpunn.cli.text import remark
from gpunn.errors import GpunnError

EXIT_ERROR = 2
EXIT_INTERRUPTED = 130  # 128 + SIGINT, what shells expect
EXIT_BROKEN_PIPE = 141  # 128 + SIGPIPE

app = typer.Typer(
    cls=Subcommands,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    show_version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    """Run neural networks on any GPU through WGSL compute shaders."""
    if show_version:
        typer.echo(f"gpunn {gpunn.__version__}")
    elif context.invoked_subcommand is None:
        typer.echo(context.get_help())


def main(args: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code; `args` defaults to the process's own."""
    _quieten_libraries()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # characters that the terminal's encoding does not have
    try:
        result = app(None if args is None else list(args), prog_name="gpunn", standalone_mode=False)
        if sys.stdout is not None:
            sys.stdout.flush()  # here, where a full disk is still an error of the command
    except BrokenPipeError:
        return _stop_writing()
    except SystemExit as end:  # by which typer answers a broken pipe, with a code that compare needs
        if isinstance(end.__context__, BrokenPipeError):
            return _stop_writing()
        raise
    except typer.TyperException as error:
        return _fail(error.format_message().replace("Value error, ", ""))  # a word of the validator, not ours
    except OSError as error:
        reason = error.strerror or str(error)
        return _fail(f"{os.fsdecode(error.filename)}: {reason}" if error.filename else reason)
    except GpunnError as error:
        return _fail(str(error))
    except typer.Abort:
        return EXIT_INTERRUPTED
    finally:
        remove_copies()
    return result if isinstance(result, int) else 0


def _stop_writing() -> int:
    """Discard what is left to print, since nobody reads it: gpunn ... | head."""
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, sys.stdout.fileno())
    os.close(devnull)
    return EXIT_BROKEN_PIPE


def _quieten_libraries() -> None:
    """Keep libraries' warnings off stderr, such as wgpu's about missing optional Vulkan extensions.

    wgpu must make its own logger when it is imported, so that the level is that of what prints.
    """
    printing = logging.StreamHandler()
    printing.setLevel(logging.ERROR)
    logging.basicConfig(handlers=[printing])


def _fail(message: str) -> int:
    remark(f"gpunn: {said(message)}")
    return EXIT_ERROR
