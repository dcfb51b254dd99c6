"""Progress bars for tasks that take longer than a second."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from gpunn.cli.show import stderr
from gpunn.progress import Progress as Told


@contextmanager
def progress_bars(quiet: bool) -> Iterator[Told]:
    """Show bars on stderr for current tasks, remove them at the end; none if stderr is not a terminal."""
    console = stderr()
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    disabled = quiet or not console.is_terminal
    with Progress(*columns, console=console, transient=True, disable=disabled) as bars:
        tasks = {}

        def told(what: str, done: int, total: int | None) -> None:
            if what not in tasks:
                tasks[what] = bars.add_task(what, total=total)
            bars.update(tasks[what], completed=done, total=total)

        yield told
