"""Worker processes as their parent sees them: started one by one, then given turns in a circle."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.peers import NAMES, Job

ROOT = Path(__file__).resolve().parent.parent
PAUSE = 0.05  # seconds between turns, in which the threads of the last peer stop spinning


@dataclass(frozen=True, slots=True)
class Spec:
    """A peer as asked for, NAME or NAME:THREADS."""

    label: str
    name: str
    threads: int

    @classmethod
    def parse(cls, text: str, threads: int) -> Spec:
        """ValueError for an unknown peer and for less than one thread."""
        name, _, own = text.partition(":")
        if name not in NAMES:
            raise ValueError(f"there is no peer {name!r}, only {', '.join(NAMES)}")
        count = int(own) if own else threads
        if count < 1:
            raise ValueError(f"{text}: at least one thread")
        return cls(text, name, count)


@dataclass(slots=True)
class Result:
    """What was measured of a peer, in seconds; `failed` says why there is nothing."""

    label: str
    threads: int
    failed: str = ""
    version: str = ""
    device: str = ""
    import_s: list[float] = field(default_factory=list)
    load_s: list[float] = field(default_factory=list)
    first_s: list[float] = field(default_factory=list)
    rounds: list[list[float]] = field(default_factory=list)
    cpu_s: list[float] = field(default_factory=list)
    error: float | None = None

    def started(self, report: Mapping[str, Any]) -> None:
        """Take in a worker's first report."""
        self.version, self.device = report["version"], report["device"]
        for name in ("import_s", "load_s", "first_s"):
            getattr(self, name).append(report[name])

    def turned(self, report: Mapping[str, Any]) -> None:
        """Take in a turn."""
        self.rounds.append(report["times"])
        self.cpu_s.append(report["cpu_s"])


class WorkerError(Exception):
    """A worker has failed; the text is the reason."""


class Worker:
    """A running worker; made, it has loaded its network and called it once."""

    def __init__(self, job: Job, folder: Path) -> None:
        folder.mkdir(parents=True)
        description = folder / "job.json"
        description.write_text(json.dumps(asdict(job)))
        self._log = folder / "stderr.txt"
        with self._log.open("w") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "benchmarks.worker", str(description)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=environment(job.threads, folder),
                cwd=ROOT,
            )
        try:
            self.report = self._read()
        except WorkerError:
            self.close()
            raise

    def turn(self, seconds: float) -> dict[str, Any]:
        """Let it run for about that long."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps({"seconds": seconds}) + "\n")
            self._process.stdin.flush()
        except OSError:
            raise WorkerError(self._ending()) from None
        return self._read()

    def close(self) -> None:
        """End its input, and with that the process; one that does not end is killed."""
        try:
            self._process.communicate(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise WorkerError(self._ending())
        message: dict[str, Any] = json.loads(line)
        if "failed" in message:
            raise WorkerError(message["failed"])
        return message

    def _ending(self) -> str:
        """Why there is no answer: the exit code and the last thing that was said."""
        code = self._process.wait()
        lines = self._log.read_text(errors="replace").split("\n")
        last = next((line for line in reversed(lines) if line.strip()), "no message")
        return f"the process ended with code {code}: {last.strip()}"


def environment(threads: int, folder: Path) -> dict[str, str]:
    """Variables of a worker: its number of threads, and empty shader caches of its own."""
    count, cache = str(threads), str(folder / "shader-cache")
    return {
        **os.environ,
        "LP_NUM_THREADS": count,
        "OMP_NUM_THREADS": count,
        "OPENBLAS_NUM_THREADS": count,
        "MESA_SHADER_CACHE_DIR": cache,
        "__GL_SHADER_DISK_CACHE_PATH": cache,
    }


def take_turns(
    jobs: Sequence[tuple[Result, Job]],
    folder: Path,
    rounds: int,
    seconds: float,
    starts: int = 1,
    progress: Callable[[str], None] = lambda text: None,
) -> None:
    """Start every peer `starts` times, keep the last, and run them A B C A B C ...; fills the results."""
    workers: list[tuple[Result, Worker]] = []
    try:
        for start in range(starts):
            for result, job in jobs:
                progress(f"start {start + 1}/{starts} of {result.label}")
                worker = _start(result, job, folder / f"{start}-{result.label.replace(':', '-')}")
                if worker is not None and start + 1 < starts:
                    worker.close()
                elif worker is not None:
                    workers.append((result, worker))
        for number in range(rounds):
            progress(f"round {number + 1}/{rounds}")
            for result, worker in workers:
                _turn(result, worker, seconds)
    finally:
        for _, worker in workers:
            worker.close()


def _start(result: Result, job: Job, folder: Path) -> Worker | None:
    if result.failed:
        return None
    time.sleep(PAUSE)
    try:
        worker = Worker(job, folder)
    except WorkerError as error:
        result.failed = str(error)
        return None
    result.started(worker.report)
    return worker


def _turn(result: Result, worker: Worker, seconds: float) -> None:
    if result.failed:
        return
    time.sleep(PAUSE)
    try:
        result.turned(worker.turn(seconds))
    except WorkerError as error:
        result.failed = str(error)
