"""Worker processes: their environment, and failures."""

from __future__ import annotations

import math
import os
import time
from pathlib import Path

import pytest

from gpunn.bench.group import Turns, environment, take_turns
from gpunn.bench.job import Job
from gpunn.bench.result import Entrant, Result
from tests.resources import ROOT


def run_library(source: str, folder: Path, monkeypatch: pytest.MonkeyPatch, timeout: float) -> Result:
    """Return the result of a worker that runs `source` when it imports ncnn."""
    (folder / "ncnn.py").write_text(source)
    monkeypatch.setenv("PYTHONPATH", str(folder))
    result = Result(Entrant("ncnn", "ncnn", 1, 1))
    job = Job("ncnn", "none", str(folder / "none.npz"), "none", 1, ())
    take_turns([(result, job)], folder, Turns(timeout=timeout), lambda what, done, total: None)
    assert not result.rounds
    return result


def test_a_hanging_worker_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begin = time.monotonic()
    result = run_library("import time; time.sleep(600)", tmp_path, monkeypatch, timeout=0.5)
    assert result.failed == "no answer within 0.5 s: ended"
    assert time.monotonic() - begin < 60, "take_turns() waits for the end of the process"


def test_a_worker_that_dies_leaves_its_last_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = run_library("raise ImportError('no such thing')", tmp_path, monkeypatch, timeout=60)
    assert result.failed == "the process ended with code 1: ImportError: no such thing"


def test_no_time_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = run_library("raise ImportError('no such thing')", tmp_path, monkeypatch, timeout=math.inf)
    assert result.failed == "the process ended with code 1: ImportError: no such thing"


def test_a_failed_worker_reports_library_output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = run_library("print('ERROR: no device', flush=True)", tmp_path, monkeypatch, timeout=60)
    assert result.failed.startswith("FileNotFoundError: ")
    assert result.failed.endswith(" (no device)")


def test_environment_has_threads_and_its_own_shader_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", "elsewhere")
    variables = environment(3, tmp_path)
    assert variables["LP_NUM_THREADS"] == variables["OPENBLAS_NUM_THREADS"] == "3"
    assert Path(variables["MESA_SHADER_CACHE_DIR"]).parent == tmp_path
    assert variables["PYTHONPATH"].split(os.pathsep) == [str(ROOT), "elsewhere"]
