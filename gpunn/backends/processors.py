"""The processors that a program may use: by affinity, by the limits of control groups, by the load."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path("/")
_MINUTE = 60.0  # seconds over which the system averages the load


def usable_processors(root: Path = ROOT) -> int:
    """Return how many processors this process may use, by its affinity and its control groups: 1 or more."""
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, int(min(count, processor_quota(root))))


def processor_features(root: Path = ROOT) -> frozenset[str]:
    """Return what an x86 processor can do, in Linux's names (`avx2`); nothing on other systems."""
    lines = _text(root / "proc/cpuinfo").splitlines()
    return frozenset(next((line for line in lines if line.startswith("flags")), "").split()[2:])


def processor_quota(root: Path = ROOT) -> float:
    """Return the processors that control groups grant this process, of version 1 or 2; inf without a limit.

    `root`: the folder that has proc and sys. Groups of a container are looked for at the top, too.
    """
    return min(_quotas(root), default=math.inf)


def _quotas(root: Path) -> Iterator[float]:
    """Yield the limits of all groups around this process."""
    for line in _text(root / "proc/self/cgroup").splitlines():
        _, controllers, path = [*line.split(":", 2), "", ""][:3]
        if controllers == "":
            for folder in _around(root / "sys/fs/cgroup", path):
                yield from _quota(*[*_text(folder / "cpu.max").split(), "", ""][:2])
        elif "cpu" in controllers.split(","):
            for folder in _around(root / "sys/fs/cgroup/cpu", path):
                names = "cpu.cfs_quota_us", "cpu.cfs_period_us"
                yield from _quota(*(_text(folder / name).strip() for name in names))


def _around(top: Path, path: str) -> Iterator[Path]:
    """Yield the folders of a group and of those around it, up to the top."""
    names = [name for name in path.split("/") if name not in ("", "..")]
    for count in range(len(names), -1, -1):
        yield top.joinpath(*names[:count])


def _quota(quota: str, period: str) -> Iterator[float]:
    """Yield microseconds of a quota in a period as processors; nothing if there is no limit."""
    if quota.isdigit() and period.isdigit() and int(period):
        yield int(quota) / int(period)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""


@dataclass(slots=True)
class OwnLoad:
    """The part of the system's load that is this process: averaged over a minute as the system does."""

    seconds: float
    busy: float
    load: float = 0.0

    @classmethod
    def begun(cls) -> OwnLoad:
        """Return the load of a process that did nothing so far."""
        return cls(time.monotonic(), time.process_time())

    def now(self) -> float:
        """Return the load up to now."""
        seconds, busy = time.monotonic(), time.process_time()
        passed = seconds - self.seconds
        if passed > 0:
            kept = math.exp(-passed / _MINUTE)
            self.load = self.load * kept + (busy - self.busy) / passed * (1 - kept)
            self.seconds, self.busy = seconds, busy
        return self.load


_own = OwnLoad.begun()


def free_processors(root: Path = ROOT) -> int:
    """Return how many usable processors other programs leave free, by the load of the last minute: 1 or more.

    Systems without a load average (Windows) count as idle.
    """
    own = _own.now()
    try:
        others = max(0.0, os.getloadavg()[0] - own)
    except (AttributeError, OSError):
        others = 0.0
    free = (os.cpu_count() or 1) - others
    return max(1, min(usable_processors(root), round(free)))
