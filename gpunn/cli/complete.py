"""Completion in shells: what options take, beside what typer knows itself. Shells complete files."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from gpunn.errors import GpunnError

_WORD = re.compile(r"[A-Za-z]\w{2,}")  # of a device's name


def device_names(incomplete: str) -> list[tuple[str, str]]:
    """Return numbers of GPUs, and words that occur in one name only, each with the whole name."""
    return [(word, name) for word, name in _devices() if word.lower().startswith(incomplete.lower())]


def listed(names: Sequence[str], *, devices: bool = False) -> Callable[[str], list[str]]:
    """Return a completion of names with commas between; `devices`: also of GPUs."""

    def complete(incomplete: str) -> list[str]:
        before, comma, last = incomplete.rpartition(",")
        known = [*names, *(word for word, _ in _devices())] if devices else [*names]
        taken = before.split(",")
        return [f"{before}{comma}{n}" for n in known if n.startswith(last) and n not in taken]

    return complete


def _devices() -> Iterator[tuple[str, str]]:
    import gpunn

    try:
        names = [info.name for info in gpunn.devices() if info.backend == "webgpu"]
    except GpunnError:  # while somebody types, it is no time for errors
        return
    words = [dict.fromkeys(_WORD.findall(name.partition("(")[0])) for name in names]
    for number, name in enumerate(names):
        yield str(number), name
        others = set().union(*words[:number], *words[number + 1 :])
        yield from ((word, name) for word in words[number] if word not in others)
