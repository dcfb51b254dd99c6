"""Times a .tflite network on gpunn and its peers, in turn: python -m benchmarks.bench MODEL.tflite

Every peer lives in a process of its own, with empty shader caches and the same number of threads (a
peer may be given as NAME:THREADS). Rounds go A B C A B C ..., so that whatever disturbs the machine
disturbs all.

import s, load s, first answer s: importing the library; reading and compiling the network; reading,
compiling and the first call, imports apart. median ms, min ms, CPU ms: of one call, from arrays in
host memory to arrays in host memory; CPU ms is the time of all threads. time / X: median over the
rounds of (the peer's median of a round / X's). first / X: first answer s, relative to X's.
err: max |y - litert's y| / the range of litert's y, on the same input.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np

import gpunn
from benchmarks import machine, ncnn_model, table
from benchmarks.group import Result, Spec, take_turns
from benchmarks.peers import NAMES, Array, Job, read, save

REFERENCE = "litert"


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print, store."""
    options = _options(arguments)
    described = machine.describe()
    model = gpunn.load(options.model)
    specs = [Spec.parse(text, options.threads) for text in options.peers]
    with tempfile.TemporaryDirectory(prefix="gpunn-bench-") as name:
        results = measure(model, specs, Path(name), options)
    described["load after"] = machine.load()
    described["adapters"] = "; ".join(
        f"{r.label} on {r.device}" for r in results if not r.failed and r.device not in ("cpu", "cpu (numpy)")
    )
    described["network"] = f"{options.model.name}, {options.rounds} rounds of {options.turn:g} s a peer"
    grid = table.peers_table(results, options.base or _bases(options.peers))
    table.report(described, grid, options.markdown)
    if options.json is not None:
        stored = {**described, "results": [asdict(r) for r in results]}
        options.json.write_text(json.dumps(stored, indent=1) + "\n")


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.bench",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("model", type=Path, metavar="MODEL.tflite")
    parser.add_argument("--peers", nargs="+", default=list(NAMES), metavar="PEER", help=" ".join(NAMES))
    parser.add_argument("--base", nargs="+", metavar="PEER", help="peers that ratios are taken to")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1, metavar="N")
    parser.add_argument("--rounds", type=int, default=7, metavar="N")
    parser.add_argument("--turn", type=float, default=1.0, metavar="SECONDS")
    parser.add_argument("--starts", type=int, default=1, metavar="N", help="cold starts a peer (medians)")
    parser.add_argument("--device", metavar="NAME", help="part of the adapter's name")
    parser.add_argument("--markdown", action="store_true", help="print Markdown")
    parser.add_argument("--json", type=Path, metavar="FILE", help="store every time measured")
    options = parser.parse_args(arguments)
    if min(options.rounds, options.starts, options.threads) < 1:
        parser.error("--rounds, --starts and --threads must be at least 1")
    if len(set(options.peers)) < len(options.peers):
        parser.error("a peer is given twice; NAME:THREADS tells two apart")
    for text in (*options.peers, *(options.base or ())):
        try:
            Spec.parse(text, options.threads)
        except ValueError as error:
            parser.error(str(error))
    return options


def _bases(peers: Sequence[str]) -> list[str]:
    """Without --base: the Vulkan and the CPU peer that gpunn's two backends are measured by."""
    found = [p for p in peers if p.partition(":")[0] in ("ncnn-vulkan", "litert")]
    return found or list(peers[:1])


def measure(
    model: gpunn.Model, specs: Sequence[Spec], folder: Path, options: argparse.Namespace
) -> list[Result]:
    """A result for each peer that was asked for."""
    inputs = random_inputs(model)
    answers = {spec.label: folder / f"answers-{i}.npz" for i, spec in enumerate(specs)}
    results = [Result(spec.label, spec.threads) for spec in specs]
    jobs = []
    for spec, result in zip(specs, results, strict=True):
        try:
            job = _job(model, spec, inputs, folder, answers[spec.label], options)
        except gpunn.UnsupportedError as error:
            result.failed = str(error)
            continue
        jobs.append((result, job))
    take_turns(jobs, folder, options.rounds, options.turn, options.starts, _progress)
    expected = _expected(model, inputs, folder, answers, results, options)
    for spec, result in zip(specs, results, strict=True):
        if expected is not None and not result.failed:
            result.error = error_of(_outputs(model, spec, answers[spec.label]), expected)
    return results


def random_inputs(model: gpunn.Model) -> list[Array]:
    """The same numbers for every peer and every run: floats between -1 and 1, bytes of any value.

    Wider integers, which are often indices, are 0 or 1, and so are truth values.
    """
    random = np.random.default_rng(0)
    inputs = []
    for operand in model.inputs:
        dtype, shape = operand.type.dtype.numpy, operand.type.shape
        if dtype.kind == "f":
            inputs.append(random.uniform(-1, 1, shape).astype(dtype))
        elif dtype.kind in "iu" and dtype.itemsize == 1:
            limits = np.iinfo(dtype)
            inputs.append(random.integers(limits.min, limits.max, shape, dtype, endpoint=True))
        else:
            inputs.append(random.integers(0, 2, shape).astype(dtype))
    return inputs


def error_of(outputs: Sequence[Array], expected: Sequence[Array]) -> float:
    """The largest difference relative to the range of what is expected, over all outputs."""
    pairs = [(o.astype(np.float64), e.astype(np.float64)) for o, e in zip(outputs, expected, strict=True)]
    return float(max(np.abs(o - e).max() / (np.ptp(e) or 1.0) for o, e in pairs))


def _job(
    model: gpunn.Model,
    spec: Spec,
    inputs: Sequence[Array],
    folder: Path,
    answers: Path,
    options: argparse.Namespace,
) -> Job:
    """Write what a peer reads; UnsupportedError where ncnn's form of the network cannot be written."""
    written = None
    if spec.name.startswith("ncnn"):
        written = ncnn_model.write(model, folder)
        inputs = [ncnn_model.as_ncnn(x) for x in inputs]
    stored = folder / ("inputs-ncnn.npz" if written else "inputs.npz")
    save(stored, inputs)
    job = Job(
        peer=spec.name,
        model=str(options.model.resolve()),
        inputs=str(stored),
        answers=str(answers),
        threads=spec.threads,
        device=options.device,
        ncnn_param=str(written.param) if written else "",
        ncnn_weights=str(written.weights) if written else "",
        ncnn_inputs=written.inputs if written else (),
        ncnn_outputs=written.outputs if written else (),
    )
    return job


def _outputs(model: gpunn.Model, spec: Spec, answers: Path) -> list[Array]:
    """A peer's first answer in the model's own layout."""
    raw = read(answers)
    if not spec.name.startswith("ncnn"):
        return raw
    return [ncnn_model.from_ncnn(y, o.type.shape) for y, o in zip(raw, model.outputs, strict=True)]


def _expected(
    model: gpunn.Model,
    inputs: Sequence[Array],
    folder: Path,
    answers: dict[str, Path],
    results: Sequence[Result],
    options: argparse.Namespace,
) -> list[Array] | None:
    """LiteRT's answer, for which it is started if it is no peer; None where it is not installed."""
    spec = Spec.parse(REFERENCE, 1)
    for result in results:
        if result.label.partition(":")[0] == REFERENCE and not result.failed:
            return _outputs(model, spec, answers[result.label])
    result = Result("reference", 1)
    path = folder / "answers-reference.npz"
    take_turns([(result, _job(model, spec, inputs, folder, path, options))], folder, 0, 0.0)
    return None if result.failed else _outputs(model, spec, path)


def _progress(text: str) -> None:
    if sys.stderr.isatty():
        print(f"\r{text:60}", end="\r", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
