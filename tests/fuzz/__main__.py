"""The parent of the fuzzer: workers, their limits of time, and what they found."""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import platformdirs

from tests.fuzz.case import BACKENDS, format_of, judge

ROOT = Path(__file__).resolve().parents[2]
START_SECONDS = 300.0  # for a worker's first answer: it builds the sound files
RENEWED = 2000  # cases of a worker: a device keeps the pipelines of every case


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a case: the kind of its outcome, why it must not be so, and whether its file was kept.

    data: the damaged file, if there is a fault.
    """

    kind: str
    fault: str
    kept: bool
    suffix: str = ""
    data: bytes = b""


@dataclass(slots=True)
class Found:
    """What a run found: cases by the kind of their outcome, files kept, and faults by what they say."""

    corpus: Path
    kinds: Counter[str] = field(default_factory=Counter)
    kept: int = 0
    faults: Counter[str] = field(default_factory=Counter)

    def take(self, answer: Answer, number: int) -> None:
        """Take in the answer to a case; when a fault is seen for the first time, print it and keep its file.

        The file's name ends with the number of the case, from which inputs are drawn.
        """
        self.kinds[answer.kind] += 1
        self.kept += answer.kept
        if answer.fault:
            if answer.fault not in self.faults:
                name = hashlib.sha256(answer.fault.encode()).hexdigest()[:16]
                path = self.corpus / "faults" / f"{name}-{number}{answer.suffix}"
                path.parent.mkdir(exist_ok=True)
                path.write_bytes(answer.data)
                print(f"{path.name}: {answer.fault}", flush=True)
            self.faults[answer.fault] += 1

    def __str__(self) -> str:
        kinds = ", ".join(f"{count:,} {kind}" for kind, count in self.kinds.most_common())
        faults = f"{sum(self.faults.values())} faults, {len(self.faults)} different"
        return f"{sum(self.kinds.values()):,} cases: {kinds}; {self.kept} files kept; {faults}"


class Worker:
    """A worker process; ask() gives it a case and waits for the answer."""

    def __init__(self, options: argparse.Namespace, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        self._log, self._case = folder / "stderr.txt", folder / "case"
        limits = [str(options.memory << 20), ",".join(options.backends)]
        arguments = [options.seed, str(options.corpus), *limits, str(self._case)]
        with self._log.open("wb") as stderr:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.fuzz.worker", *arguments],
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
            )
        self._lines: queue.Queue[str] = queue.Queue()
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()
        self.cases = 0

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line)
        self._lines.put("")

    def ask(self, number: int, seconds: float) -> Answer:
        """Return the answer to a case; a worker that dies or takes long has none, which is a fault."""
        assert self._process.stdin is not None
        with suppress(OSError):  # it may have died
            self._process.stdin.write(f"{number}\n")
            self._process.stdin.flush()
        why = ""
        try:
            line = self._lines.get(timeout=seconds if self.cases else START_SECONDS)
        except queue.Empty:
            line, why = "", f"no answer within {seconds:g} s"
        self.cases += 1
        if line:
            answer = Answer(**json.loads(line))
            return replace(answer, data=self._file()) if answer.fault else answer
        self.close()
        said = self._log.read_text(errors="replace").strip().splitlines()[-1:]
        why = why or f"the process ended with code {self._process.returncode}: {' '.join(said)}"
        return Answer("lost", why, False, format_of(number).suffix, self._file())

    def _file(self) -> bytes:
        return self._case.read_bytes() if self._case.exists() else b""

    @property
    def alive(self) -> bool:
        """Tell whether the process runs."""
        return self._process.poll() is None

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()
        self._listener.join()
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            with suppress(OSError):  # what it was not given any more
                stream.close()


def hunt(options: argparse.Namespace, numbers: Iterator[int]) -> Found:
    """Judge cases in worker processes until there are none, or the time is over."""
    found, lock = Found(options.corpus), threading.Lock()
    end = time.monotonic() + options.hours * 3600

    def work(folder: Path) -> None:
        worker = Worker(options, folder)
        try:
            while time.monotonic() < end:
                with lock:
                    number = next(numbers, None)
                if number is None:
                    return
                if not worker.alive or worker.cases >= RENEWED:
                    worker.close()
                    worker = Worker(options, folder)
                answer = worker.ask(number, options.seconds)
                with lock:
                    found.take(answer, number)
        finally:
            worker.close()

    with tempfile.TemporaryDirectory(prefix="gpunn-fuzz-") as name:
        folders = [Path(name) / str(place) for place in range(options.workers)]
        threads = [threading.Thread(target=work, args=(folder,)) for folder in folders]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return found


def parser() -> argparse.ArgumentParser:
    """Describe the command line."""
    found = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    found.add_argument("--cases", type=int, default=10_000, metavar="N")
    found.add_argument("--first", type=int, default=0, metavar="N", help="the number of the first case")
    found.add_argument("--again", type=Path, metavar="FILE", help="judge this file only, in this process")
    found.add_argument("--seed", default="0")
    found.add_argument("--hours", type=float, default=24.0, help="the most that the run may take")
    found.add_argument("--seconds", type=float, default=60.0, help="the most that a case may take")
    found.add_argument("--memory", type=int, default=0, metavar="MIB", help="of a worker; 0: any")
    found.add_argument("--workers", type=int, default=os.cpu_count() or 1, metavar="N")
    found.add_argument("--backends", nargs="+", choices=BACKENDS, default=list(BACKENDS))
    folder = Path(platformdirs.user_cache_dir("gpunn")) / "fuzz"
    found.add_argument("--corpus", type=Path, default=folder, metavar="FOLDER")
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the fuzzer; return 1 if it found a fault."""
    options = parser().parse_args(arguments)
    if options.again is not None:
        drawn = options.again.stem.rpartition("-")[2]
        number = int(drawn) if drawn.isdecimal() else 0
        outcome = judge(options.again.read_bytes(), number, tuple(options.backends))
        print(outcome.key, outcome.fault, sep="\n")
        return int(bool(outcome.fault))
    options.corpus.mkdir(parents=True, exist_ok=True)
    found = hunt(options, iter(range(options.first, options.first + options.cases)))
    print(found)
    for fault, count in found.faults.most_common():
        print(f"{count} times: {fault}")
    return int(bool(found.faults))


if __name__ == "__main__":
    sys.exit(main())
