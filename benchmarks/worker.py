"""One peer in a process of its own: python -m benchmarks.worker JOB.json, spoken to in lines of JSON.

It answers first with what it is and how long loading and the first call took, or with {"failed": reason};
then, to each line {"seconds": S}, with the times of the calls of about S seconds. It ends with its input.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any, TextIO

from benchmarks.peers import Array, Job, Peer, make, read, save

MIN_CALLS = 2  # of a turn


def main() -> None:
    """Load, report, take turns."""
    protocol = _protocol()
    job = Job(**json.loads(Path(sys.argv[1]).read_text()))
    try:
        peer, inputs, report = _start(job)
    except ImportError as error:
        report = {"failed": f"not installed: {error}"}
    except Exception as error:
        report = {"failed": " ".join(f"{type(error).__name__}: {error}".split())}
    _send(protocol, report)
    if "failed" in report:
        return
    for line in sys.stdin:
        _send(protocol, _turn(peer, inputs, json.loads(line)["seconds"]))


def _protocol() -> TextIO:
    """The stdout that the parent reads; what libraries print goes to stderr from here on."""
    protocol = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    return protocol


def _send(protocol: TextIO, message: dict[str, Any]) -> None:
    protocol.write(json.dumps(message) + "\n")
    protocol.flush()


def _start(job: Job) -> tuple[Peer, list[Array], dict[str, Any]]:
    """The peer with its network loaded and called once, its inputs, and the report on it."""
    inputs = read(job.inputs)
    begin = time.perf_counter()
    peer = make(job.peer)
    imported = time.perf_counter()
    peer.load(job)
    loaded = time.perf_counter()
    answers = peer.call(inputs)
    answered = time.perf_counter()
    save(job.answers, answers)
    report = {
        "version": peer.version,
        "device": peer.device,
        "import_s": imported - begin,
        "load_s": loaded - imported,
        "first_s": answered - imported,
    }
    return peer, inputs, report


def _turn(peer: Peer, inputs: list[Array], seconds: float) -> dict[str, Any]:
    """Times of calls one after another, and CPU time (of all threads) for each, in seconds."""
    peer.call(inputs)  # wakes what slept while others had their turn
    times: list[float] = []
    cpu, begin = time.process_time(), time.perf_counter()
    while len(times) < MIN_CALLS or time.perf_counter() - begin < seconds:
        start = time.perf_counter()
        peer.call(inputs)
        times.append(time.perf_counter() - start)
    return {"times": times, "cpu_s": (time.process_time() - cpu) / len(times)}


if __name__ == "__main__":
    main()
