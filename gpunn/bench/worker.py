"""One peer in a process of its own; its parent sends and receives lines of JSON, see COMMAND.

Its first message describes the peer and gives the times of the import, of loading, and of all until the
first answer, or is {"failed": reason}. It answers each line {"seconds": S} with the times of calls and the
rate of a stream, of about S seconds together. It ends when its input ends.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TextIO

from gpunn.bench.job import Job, read, save
from gpunn.bench.peers import PEERS, Peer
from gpunn.types import Array

MIN_CALLS = 2  # of a turn
MIN_FRAMES = 4  # of a turn's stream: a ring of three is full once

# The code for python -c, so that the timed import is the process's first; this module is in gpunn.
# The parent reads what was stdout; what libraries print goes to stderr.
COMMAND = """\
import os, sys, time, numpy
protocol = os.dup(sys.stdout.fileno())
os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
begin = time.perf_counter()
{statement}
seconds = time.perf_counter() - begin
from gpunn.bench.worker import main
main(sys.argv[1], protocol, seconds)
"""


def main(description: str, descriptor: int, import_seconds: float) -> None:
    """Load the Job of a JSON file, report to a file descriptor, take turns."""
    protocol = os.fdopen(descriptor, "w")
    job = Job(**json.loads(Path(description).read_text(encoding="utf-8")))
    try:
        peer, inputs, report = _start(job)
    except Exception as error:
        report = {"failed": " ".join(f"{type(error).__name__}: {error}".split())}
    else:
        report = {**report, "import_s": import_seconds, "first_s": import_seconds + report["first_s"]}
    _send(protocol, report)
    if "failed" in report:
        return
    for line in sys.stdin:
        _send(protocol, _turn(peer, inputs, json.loads(line)["seconds"]))


def _send(protocol: TextIO, message: dict[str, Any]) -> None:
    protocol.write(json.dumps(message) + "\n")
    protocol.flush()


def _start(job: Job) -> tuple[Peer, Sequence[Array], dict[str, Any]]:
    """Start the peer, load its model and call it once; return the peer, its inputs, and the report."""
    stored = read(job.inputs)
    peer = PEERS[job.peer].make()
    begin = time.perf_counter()
    peer.load(job)
    loaded = time.perf_counter() - begin
    inputs = peer.prepare(stored)
    begin = time.perf_counter()
    answers = peer.call(inputs)
    first = loaded + time.perf_counter() - begin
    save(job.answers, peer.restore(answers))
    report = {"version": peer.version, "device": peer.device, "load_s": loaded, "first_s": first}
    return peer, inputs, report


def _turn(peer: Peer, inputs: Sequence[Array], seconds: float) -> dict[str, Any]:
    """Measure times of consecutive calls, CPU time (of all threads) for each, and runs per second of a
    stream.
    """
    peer.call(inputs)  # wakes what slept while others had their turn
    times: list[float] = []
    cpu, begin = time.process_time(), time.perf_counter()
    while len(times) < MIN_CALLS or time.perf_counter() - begin < seconds / 2:
        start = time.perf_counter()
        peer.call(inputs)
        times.append(time.perf_counter() - start)
    cpu = (time.process_time() - cpu) / len(times)
    begin = time.perf_counter()
    count = sum(1 for _ in peer.stream(_frames(inputs, begin + seconds / 2)))
    return {"times": times, "cpu_s": cpu, "rate": count / (time.perf_counter() - begin)}


def _frames(inputs: Sequence[Array], end: float) -> Iterator[Sequence[Array]]:
    """Repeat the same inputs until the clock reaches `end`."""
    count = 0
    while count < MIN_FRAMES or time.perf_counter() < end:
        yield inputs
        count += 1
