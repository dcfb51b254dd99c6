"""The processors that a program may use, by affinity and control groups, and those that others leave free."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from gpunn.backends import processors
from gpunn.backends.processors import OwnLoad, free_processors, processor_quota, usable_processors

V1, V2 = "4:cpu,cpuacct:/a/b\n9:memory:/other\n", "0::/a/b\n"


def system(root: Path, files: Mapping[str, str]) -> Path:
    """Write files of /proc and /sys below a folder."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def version1(quota: int, period: int = 100_000, folder: str = "a/b/") -> dict[str, str]:
    top = f"sys/fs/cgroup/cpu/{folder}cpu.cfs_"
    return {f"{top}quota_us": f"{quota}\n", f"{top}period_us": f"{period}\n"}


@pytest.mark.parametrize(
    ("files", "quota"),
    [
        ({}, math.inf),
        ({"proc/self/cgroup": V2}, math.inf),
        ({"proc/self/cgroup": V2, "sys/fs/cgroup/a/b/cpu.max": "max 100000\n"}, math.inf),
        ({"proc/self/cgroup": V2, "sys/fs/cgroup/a/b/cpu.max": "250000 100000\n"}, 2.5),
        ({"proc/self/cgroup": V2, "sys/fs/cgroup/a/cpu.max": "30000 20000\n"}, 1.5),
        (
            {
                "proc/self/cgroup": V2,
                "sys/fs/cgroup/a/b/cpu.max": "800000 100000\n",
                "sys/fs/cgroup/a/cpu.max": "300000 100000\n",
                "sys/fs/cgroup/cpu.max": "max 100000\n",
            },
            3.0,
        ),
        ({"proc/self/cgroup": "0::/../x\n", "sys/fs/cgroup/cpu.max": "400000 100000\n"}, 4.0),
        ({"proc/self/cgroup": V2, "sys/fs/cgroup/a/b/cpu.max": "rubbish"}, math.inf),
        ({"proc/self/cgroup": V2, "sys/fs/cgroup/a/b/cpu.max": "100000 0"}, math.inf),
        ({"proc/self/cgroup": "rubbish", "sys/fs/cgroup/cpu.max": "100000 100000"}, 1.0),
        ({"proc/self/cgroup": V1, **version1(-1)}, math.inf),
        ({"proc/self/cgroup": V1, **version1(600_000)}, 6.0),
        ({"proc/self/cgroup": V1, **version1(50_000)}, 0.5),
        ({"proc/self/cgroup": V1, **version1(600_000), **version1(200_000, folder="")}, 2.0),
    ],
)
def test_the_smallest_limit_around_the_process_counts(
    files: Mapping[str, str], quota: float, tmp_path: Path
) -> None:
    assert processor_quota(system(tmp_path, files)) == quota


@pytest.mark.parametrize(("quota", "expected"), [("300000", 3), ("250000", 2), ("10000", 1), ("max", 6)])
def test_usable_processors(
    quota: str, expected: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(6)), raising=False)
    root = system(tmp_path, {"proc/self/cgroup": V2, "sys/fs/cgroup/a/b/cpu.max": f"{quota} 100000"})
    assert usable_processors(root) == expected


def test_usable_processors_without_affinity(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 5)
    assert usable_processors(tmp_path) == 5
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert usable_processors(tmp_path) == 1


@pytest.mark.parametrize(
    ("load", "own", "expected"),
    [
        (0.2, 0.0, 4),
        (0.6, 0.0, 4),
        (5.4, 0.0, 3),
        (6.0, 2.0, 4),
        (6.0, 0.0, 2),
        (40.0, 0.0, 1),
        (1.0, 3.0, 4),
    ],
)
def test_processors_that_others_leave_free(
    load: float, own: float, expected: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 8 processors 4 may be used; the program's own load is none of the others'."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(4)), raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    monkeypatch.setattr(os, "getloadavg", lambda: (load, 0.0, 0.0), raising=False)
    monkeypatch.setattr(OwnLoad, "now", lambda self: own)
    assert free_processors(tmp_path) == expected


def test_a_system_without_a_load_average_is_idle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(4)), raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    monkeypatch.delattr(os, "getloadavg", raising=False)
    assert free_processors(tmp_path) == 4


def test_the_own_load_is_averaged_as_the_system_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two threads for a minute are 2 (1 - 1/e), and idling for two more minutes leaves 1/e^2 of that."""
    clock = {"wall": 100.0, "busy": 5.0}
    monkeypatch.setattr(processors.time, "monotonic", lambda: clock["wall"])
    monkeypatch.setattr(processors.time, "process_time", lambda: clock["busy"])
    own = OwnLoad.begun()
    assert own.now() == 0
    for _ in range(60):
        clock["wall"] += 1
        clock["busy"] += 2
        own.now()
    assert own.load == pytest.approx(2 * (1 - math.exp(-1)))
    clock["wall"] += 120
    assert own.now() == pytest.approx(2 * (1 - math.exp(-1)) * math.exp(-2))
