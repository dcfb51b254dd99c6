"""The soak: memory, files and threads stay as they were, in few runs and cycles here."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.resources import ROOT


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="figures are from /proc")
def test_memory_files_and_threads_stay_as_they_were(gpu: str) -> None:
    counts = ("--runs", "2000", "--cycles", "200", "--kernels", "10")
    command = [sys.executable, "-m", "benchmarks.soak", *counts, "--markdown"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    rows = [line.strip("| ").split(" | ") for line in done.stdout.splitlines() if "pu: " in line]
    assert len(rows) == 8
    for name, _, resident, device, files, threads, _ in rows:
        before, after = map(float, resident.split(" / "))
        few = 8 if "kernels" not in name else 64  # pipelines stay: tests/backends/test_pipelines.py
        assert after - before < few, f"{name}: {resident} MiB"
        assert len({*device.split(" / ")}) == 1, f"{name}: {device} bytes on the device"
        assert len({*files.split(" / ")}) == 1, f"{name}: {files} files"
        first, last = map(int, threads.split(" / "))
        assert abs(last - first) <= 1, f"{name}: {threads} threads"  # one may be about to end
