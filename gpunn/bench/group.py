"""Worker processes as their parent sees them: started one by one, then run in turns."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import gpunn
from gpunn.bench.job import Job
from gpunn.bench.peers import PEERS
from gpunn.bench.result import Result
from gpunn.bench.worker import COMMAND
from gpunn.progress import Progress

PAUSE = 0.05  # seconds between turns, in which the threads of the last peer stop spinning
ENDING = 10.0  # seconds in which a worker must end after its input has
SOURCE = Path(gpunn.__file__).resolve().parent.parent  # so that workers use the gpunn that their parent is


@dataclass(frozen=True, slots=True)
class Turns:
    """The durations of a benchmark: `starts` cold starts for each peer, `rounds` of `seconds` each.

    timeout: the seconds that a peer may take to start, and beyond the planned time of its turn;
    infinity is no limit.
    """

    starts: int = 1
    rounds: int = 5
    seconds: float = 1.0
    timeout: float = 300.0


class WorkerError(Exception):
    """The failure of a worker; the text is the reason."""


class Worker:
    """A running worker that has loaded its model and called it once.

    Raises WorkerError if the worker fails or does not answer within `timeout` seconds; it is then ended.
    """

    def __init__(self, job: Job, folder: Path, timeout: float) -> None:
        folder.mkdir(parents=True)
        description = folder / "job.json"
        description.write_text(json.dumps(asdict(job)), encoding="utf-8")
        self._log, self._timeout = folder / "stderr.txt", timeout
        with self._log.open("w") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-c", COMMAND.format(statement=PEERS[job.peer].statement), str(description)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=environment(job.threads, folder),
                cwd=folder,
            )
        self._lines: queue.Queue[str] = queue.Queue()
        self._reader = threading.Thread(target=self._read_lines, daemon=True)
        self._reader.start()
        try:
            self.report = self._read(0.0)
        except BaseException:
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
        return self._read(seconds)

    def close(self) -> None:
        """End its input, and with that the process; one that does not end is killed."""
        assert self._process.stdin is not None and self._process.stdout is not None
        with suppress(OSError):  # it may be gone without having read all
            self._process.stdin.close()
        try:
            self._process.wait(ENDING)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join()
        self._process.stdout.close()

    def _read_lines(self) -> None:
        """Put the worker's output into a queue, which can be read with a time limit on every system."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line)
        self._lines.put("")

    def _read(self, seconds: float) -> dict[str, Any]:
        """Return its next message, which should take that long."""
        try:
            line = self._lines.get(timeout=min(seconds + self._timeout, threading.TIMEOUT_MAX))
        except queue.Empty:
            self._process.kill()
            raise WorkerError(f"no answer within {seconds + self._timeout:g} s: ended") from None
        if not line:
            raise WorkerError(self._ending())
        message: dict[str, Any] = json.loads(line)
        if "failed" in message:
            raise WorkerError(message["failed"] + self._complaint())
        return message

    def _ending(self) -> str:
        """Say why there is no answer: the exit code and the last output."""
        code = self._process.wait()
        last = next((line for line in reversed(self._said()) if line.strip()), "no message")
        return f"the process ended with code {code}: {last.strip()}"

    def _complaint(self) -> str:
        """Return the first error that a library has written to its log, in brackets, or ""."""
        first = next((line for line in self._said() if line.startswith("ERROR: ")), "")
        return first and f" ({first.removeprefix('ERROR: ').strip()})"

    def _said(self) -> list[str]:
        return self._log.read_text(errors="replace").split("\n")


def environment(threads: int, folder: Path) -> dict[str, str]:
    """Make a worker's variables: its number of threads, empty shader caches of its own, this very gpunn."""
    count = str(threads)
    paths = (str(SOURCE), os.environ.get("PYTHONPATH", ""))
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(path for path in paths if path),
        "LP_NUM_THREADS": count,
        "OMP_NUM_THREADS": count,
        "OPENBLAS_NUM_THREADS": count,
        **shader_caches(folder),
    }


def shader_caches(folder: Path) -> dict[str, str]:
    """Make the variables that direct the drivers' shader caches to a folder of their own."""
    cache = str(folder / "shader-cache")
    return {"MESA_SHADER_CACHE_DIR": cache, "__GL_SHADER_DISK_CACHE_PATH": cache}


def take_turns(jobs: Sequence[tuple[Result, Job]], folder: Path, turns: Turns, progress: Progress) -> None:
    """Start every peer, keep the last start of each, and run them A B C A B C ...; fills the results."""
    workers: list[tuple[Result, Worker]] = []
    begun, total = 0, turns.starts * len(jobs)
    try:
        for start in range(turns.starts):
            for result, job in jobs:
                progress("cold starts", begun, total)
                begun += 1
                worker = _start(result, job, folder / f"worker-{begun}", turns.timeout)
                if worker is not None and start + 1 < turns.starts:
                    worker.close()
                elif worker is not None:
                    workers.append((result, worker))
        progress("cold starts", total, total)
        for number in range(turns.rounds):
            progress("rounds", number, turns.rounds)
            for result, worker in workers:
                _turn(result, worker, turns.seconds)
        progress("rounds", turns.rounds, turns.rounds)
    finally:
        for _, worker in workers:
            worker.close()


def _start(result: Result, job: Job, folder: Path, timeout: float) -> Worker | None:
    if result.failed:
        return None
    time.sleep(PAUSE)
    try:
        worker = Worker(job, folder, timeout)
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
