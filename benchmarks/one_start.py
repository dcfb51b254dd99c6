"""One cold start of gpunn and some runs, in a process of its own; benchmarks.regress starts it.

    python benchmarks/one_start.py TASK.json

The only gpunn here is the one that PYTHONPATH names, and only its public API is used, so that the file serves
commits old and new. It prints one line of JSON: first_s, the time from before the import to the first answer;
first_cpu_s, its CPU time; run_s and cpu_s, medians of a run; host_us, for each of its dispatches: the median
of what comes before the submission, and the mean of what is recorded for later runs, which may be several at
once; dispatches and uploaded, of one run; arena_bytes; answers, a digest of all outputs.
"""

from __future__ import annotations

import hashlib
import json
import statistics
import sys
import time
from pathlib import Path

import numpy as np

begin, cpu_begin = time.perf_counter(), time.process_time()
import gpunn  # noqa: E402 - the import is measured


def main(path: str) -> None:
    """Measure as the task says, and print."""
    task = json.loads(Path(path).read_text(encoding="utf-8"))
    home = Path(gpunn.__file__).resolve().parent.parent
    if home != Path(task["tree"]).resolve():
        raise SystemExit(f"this is the gpunn of {home}, not of {task['tree']}")
    with np.load(task["inputs"]) as stored:
        inputs = [stored[str(i)] for i in range(len(stored.files))]
    model = gpunn.load(task["model"])
    shapes = {i.name: array.shape for i, array in zip(model.inputs, inputs, strict=True)}
    preference = gpunn.Preference[task["preference"]]
    with model.compile(task["backend"], preference, shapes=shapes, device=task["device"]) as compiled:
        outputs = compiled(*inputs)
        figures = {"first_s": time.perf_counter() - begin, "first_cpu_s": time.process_time() - cpu_begin}
        answers = outputs if isinstance(outputs, tuple) else (outputs,)
        digest = hashlib.sha256(b"".join(np.ascontiguousarray(a).tobytes() for a in answers))
        figures |= _runs(compiled, inputs, task["runs"])
    print(json.dumps({**figures, "answers": digest.hexdigest(), "device": compiled.device}))


def _runs(compiled: gpunn.Compilation, inputs: list[np.ndarray], count: int) -> dict[str, float]:
    """Return the medians of `count` runs, and the counters of one."""
    compiled(*inputs)  # the second run may still prepare something
    stats = compiled.stats
    dispatches, uploaded, ahead = stats.dispatches, stats.bytes_uploaded, _ahead(stats)
    wall, cpu, host = [], [], []
    for _ in range(count):
        encoded = compiled.stats.encode_seconds
        start, cpu_start = time.perf_counter(), time.process_time()
        compiled(*inputs)
        wall.append(time.perf_counter() - start)
        cpu.append(time.process_time() - cpu_start)
        host.append(compiled.stats.encode_seconds - encoded)
    stats = compiled.stats
    done = stats.dispatches - dispatches
    recorded = _ahead(stats) - ahead
    return {
        "run_s": statistics.median(wall),
        "cpu_s": statistics.median(cpu),
        "host_us": 1e6 * (statistics.median(host) * count + recorded) / done if done else 0.0,
        "dispatches": done / count,
        "uploaded": (stats.bytes_uploaded - uploaded) / count,
        "arena_bytes": stats.arena_bytes,
    }


def _ahead(stats: gpunn.Stats) -> float:
    """Return the seconds of recording later runs; old commits have none."""
    return getattr(stats, "ahead_seconds", 0.0)


if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        raise SystemExit(__doc__)
    main(sys.argv[1])
