"""A worker of the fuzzer: judges cases by number; its parent ends it when one takes too long.

It reads numbers, line by line, and answers each with a line of JSON. The file of the case is in a folder
while it is judged, so that it is not lost with the worker.
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from pathlib import Path

from tests.fuzz.case import judge, keep, make


def main(seed: str, corpus: str, memory: int, backends: str, place: str) -> None:
    """Answer until the input ends. memory: bytes of address space, 0 for any."""
    protocol = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print is not an answer
    if memory:
        import resource  # not on every system

        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    warnings.simplefilter("error")
    for line in sys.stdin:
        number = int(line)
        data, suffix = make(seed, number, Path(corpus))
        Path(place).write_bytes(data)
        outcome = judge(data, number, tuple(backends.split(",")))
        kept = not outcome.fault and keep(Path(corpus), outcome, data, suffix)
        answer = {"suffix": suffix, "kind": outcome.kind, "fault": outcome.fault, "kept": kept}
        protocol.write(json.dumps(answer) + "\n")
        protocol.flush()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4], sys.argv[5])
