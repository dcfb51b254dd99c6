"""Plots by matplotlib, which is loaded only for them."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from gpunn.cli.show import plain
from gpunn.errors import UnsupportedError
from gpunn.files import expect_writable
from gpunn.finetuning.finetune import Finetuned
from gpunn.profiling import Profile
from gpunn.wording import counted

FORMATS = (".pdf", ".png", ".svg")
_ROW_INCHES = 0.22  # height of an operation's bar


def check_plot(path: Path) -> None:
    """Raise UnsupportedError or FormatError unless a plot can be written to a file of this name."""
    if path.suffix.lower() not in FORMATS:
        raise UnsupportedError(f"{path}: plots are written as {', '.join(FORMATS)}")
    if importlib.util.find_spec("matplotlib") is None:
        raise UnsupportedError("a plot needs matplotlib: pip install 'gpunn[demo]'")
    expect_writable(path)


def plot_profile(found: Profile, path: Path) -> None:
    """Draw a bar for each operation's time, coloured by op, and write it to a .png, .svg or .pdf file.

    Raises what check_plot() raises, and OSError when the file cannot be written.
    """
    check_plot(path)
    from matplotlib.figure import Figure  # takes half a second, which only a plot should

    ops = list(dict.fromkeys(row.op for row in found.rows))
    colours = {op: f"C{number % 10}" for number, op in enumerate(ops)}
    figure = Figure(figsize=(9, 1.6 + _ROW_INCHES * len(found.rows)), layout="constrained")
    axes = figure.subplots()
    names = [f"{row.index} {row.op} {'x'.join(map(str, row.shape))}" for row in found.rows]
    for op in ops:
        rows = [k for k, row in enumerate(found.rows) if row.op == op]
        seconds = [found.rows[k].seconds for k in rows]
        share = sum(found.rows[k].share for k in rows)
        axes.barh(rows, [1e6 * s for s in seconds], color=colours[op], label=f"{op} ({share:.0%})")
    axes.set_yticks(range(len(names)), names, fontsize=7)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.set_xlabel(f"microseconds, by {found.method}")
    title = plain(f"{found.model} on {found.device}").plain
    axes.set_title(title, fontsize=10, parse_math=False)
    axes.grid(axis="x", alpha=0.3)
    axes.legend(fontsize=8, loc="lower right")
    figure.savefig(path, dpi=120)


def plot_losses(found: Finetuned, model: str, path: Path) -> None:
    """Draw the losses of mini-batches and the accuracy of epochs; write it as plot_profile() does.

    Raises what check_plot() raises, and OSError when the file cannot be written.
    """
    check_plot(path)
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 5), layout="constrained")
    axes = figure.subplots()
    steps = len(found.losses) / len(found.epochs)
    ends = [steps * number for number in range(1, len(found.epochs) + 1)]
    axes.plot(range(1, len(found.losses) + 1), found.losses, color="C0", alpha=0.4, label="of a mini-batch")
    axes.plot(ends, [epoch.loss for epoch in found.epochs], "o-", color="C0", label="mean of an epoch")
    axes.set_xlabel("mini-batches")
    axes.set_ylabel("loss (cross entropy)")
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)
    if found.measured:
        right = axes.twinx()
        shares = [100 * (epoch.accuracy or 0.0) for epoch in found.epochs]
        right.plot(ends, shares, "s--", color="C1", label="accuracy")
        right.set_ylabel(f"accuracy on {counted(found.measured, 'photo')}, %", color="C1")
        right.set_ylim(0, 100)
    axes.legend(fontsize=8, loc="upper right")
    axes.set_title(plain(f"{model} on {found.device}").plain, fontsize=10, parse_math=False)
    figure.savefig(path, dpi=120)
