"""benchmark(): the entrants, the inputs of each, and the errors of their answers."""

from __future__ import annotations

import itertools
import math
import os
import tempfile
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from gpunn.bench.conditions import Conditions, load
from gpunn.bench.group import Turns, take_turns
from gpunn.bench.job import Job, read, save
from gpunn.bench.peers import FLOAT32, OTHERS, OURS, PEERS, ncnn_model, onnx_rules
from gpunn.bench.result import Benchmark, Entrant, Result, names
from gpunn.comparison.inputs import Sample, random_source
from gpunn.comparison.litert import LitertSide, expect_tflite
from gpunn.comparison.sides import CPU, Side, open_side
from gpunn.compilation.compiler import gpu_devices
from gpunn.compilation.preference import Preference
from gpunn.errors import DeviceError, ModelError, UnsupportedError
from gpunn.importers import bytes_of
from gpunn.model import Model
from gpunn.model import load as load_model
from gpunn.progress import Progress, untold
from gpunn.types import Array

ALL = "all"  # stands for every other library in float32
BACKENDS = tuple(name.removeprefix("gpunn-") for name in OURS)
DEFAULT_BACKENDS = tuple(name for name in BACKENDS if OURS[f"gpunn-{name}"].precision == FLOAT32)
PREFERENCES = (Preference.FAST_SINGLE_ANSWER, Preference.SUSTAINED_SPEED)


def benchmark(
    model: str | Path,
    *,
    backends: Sequence[str] = DEFAULT_BACKENDS,
    preferences: Sequence[Preference] = PREFERENCES,
    peers: Sequence[str] = (),
    batches: Sequence[int] = (1,),
    threads: Sequence[int] = (),
    bases: Sequence[str] = (),
    onnx: str | Path | None = None,
    device: str | None = None,
    turns: Turns | None = None,
    seed: int = 0,
    progress: Progress = untold,
) -> Benchmark:
    """Measure a model file on gpunn's backends with each preference and on other libraries, for each batch.

    Every entrant is a process of its own with empty shader caches; the entrants run in turns. peers: names of
    OTHERS, or "all" in float32; if one is not installed or cannot run the model, the reason is in `failed`.
    batches: multiples of the file's own shapes. threads: numbers of threads, by default the number of cores.
    bases: what ratios are relative to, series or peers, by default ncnn-vulkan and litert if they are
    measured, else the first entrant that runs. onnx: a file of the same model for onnxruntime and PyTorch, by
    default one that is written from the model. device: part of an adapter's name.
    Raises the errors of gpunn.load(), ModelError for invalid arguments, DeviceError if nothing could be
    measured, or if there is no such device for gpunn itself.
    """
    turns = turns or Turns()
    if not (turns.timeout > 0 and 0 <= turns.seconds < math.inf):
        given = f"{turns.seconds} and {turns.timeout}"
        raise ModelError(f"turns must have a length of seconds and a timeout above 0, got {given}")
    chosen = entrants(backends, preferences, peers, batches, threads or (os.cpu_count() or 1,))
    pick_bases(bases, chosen)  # what cannot be a base is refused before anything is measured
    if device is not None:
        _check_device(device, chosen)
    readers = [name for name in OTHERS if _reads_onnx(name)]
    if onnx is not None and not any(entrant.peer in readers for entrant in chosen):
        raise ModelError(f"an ONNX file is for {', '.join(readers)}, which are not to be measured")
    conditions, loaded = Conditions.now(), load_model(model)
    random = random_source(loaded, max((b for b in batches if can_batch(loaded, b)), default=1), seed)
    samples = list(random.samples)
    results = [Result(entrant) for entrant in chosen]
    with tempfile.TemporaryDirectory(prefix="gpunn-bench-") as name:
        bench = _Bench(loaded, Path(model).resolve(), samples, Path(name), onnx, device)
        jobs = bench.jobs(results)
        take_turns(jobs, Path(name), turns, progress)
        reference = bench.judge(jobs)
    if all(result.failed for result in results):
        reasons = "; ".join(f"{result.label}: {result.failed}" for result in results)
        raise DeviceError(f"nothing could be measured: {reasons}")
    ran = [result.entrant for result in results if not result.failed]
    return Benchmark(
        model=loaded.name,
        inputs=random.description,
        reference=reference,
        starts=turns.starts,
        rounds=turns.rounds,
        turn_seconds=turns.seconds,
        bases=tuple(bases or pick_bases((), ran)),
        conditions=conditions,
        load_after=load(),
        results=tuple(results),
    )


def entrants(
    backends: Sequence[str],
    preferences: Sequence[Preference],
    peers: Sequence[str],
    batches: Sequence[int],
    threads: Sequence[int],
) -> list[Entrant]:
    """List every combination; raise ModelError for unknown names, and for an empty list."""
    if ALL in peers:
        peers = [name for name, kind in OTHERS.items() if kind.precision == FLOAT32]
    _check("backend", backends, BACKENDS)
    _check("peer", peers, OTHERS)
    if min((*batches, *threads)) < 1:
        raise ModelError("batches and numbers of threads must be at least 1")
    kinds: list[tuple[str, Preference | None]] = [
        *((f"gpunn-{backend}", preference) for backend in backends for preference in preferences),
        *((peer, None) for peer in peers),
    ]
    found = []
    for batch, count, (peer, preference) in itertools.product(batches, threads, kinds):
        series = peer if preference is None else f"{peer}/{preference_text(preference)}"
        series = f"{series}:{count}" if len(threads) > 1 else series
        found.append(Entrant(series, peer, count, batch, preference.name if preference else None))
    if not found:
        raise ModelError("nothing to measure: name a backend and a preference, or a peer")
    if len({entrant.label for entrant in found}) < len(found):
        raise ModelError("something is named twice: each backend, preference, peer, batch and number once")
    return found


def preference_text(preference: Preference) -> str:
    """Format a preference's name."""
    return preference.name.lower().replace("_", "-")


def _reads_onnx(peer: str) -> bool:
    return peer.startswith(("onnxruntime", "torch"))


def _check_device(device: str, chosen: Sequence[Entrant]) -> None:
    """Raise an error for a device that nothing chosen takes, and for one that gpunn's GPU backend lacks."""
    takers = [name for name, kind in PEERS.items() if kind.takes_device]
    asked = {entrant.peer for entrant in chosen}.intersection(takers)
    if not asked:
        raise ModelError(f"device {device!r} is for {', '.join(takers)}, which are not to be measured")
    if not asked.isdisjoint(OURS):
        gpu_devices().find_adapter(device, low_power=False)


def _check(what: str, given: Sequence[str], known: Collection[str]) -> None:
    for name in given:
        if name not in known:
            raise ModelError(f"there is no {what} {name!r}, only {', '.join(known)}")


def pick_bases(bases: Sequence[str], measured: Sequence[Entrant]) -> list[str]:
    """Return the bases, which must be entrants; by default the peers of gpunn's backends."""
    for base in bases:
        if not any(names(base, entrant) for entrant in measured):
            known = ", ".join(dict.fromkeys(entrant.series for entrant in measured))
            raise ModelError(f"the base {base!r} is not measured, only {known}")
    usual = [p for p in ("ncnn-vulkan", "litert") if any(e.peer == p for e in measured)]
    return list(bases) or usual or [measured[0].series]


@dataclass(frozen=True, slots=True)
class _Bench:
    """The files that the workers of a benchmark read and write."""

    model: Model
    path: Path
    samples: Sequence[Sample]
    folder: Path
    onnx: str | Path | None
    device: str | None

    def jobs(self, results: Sequence[Result]) -> list[tuple[Result, Job]]:
        """List the jobs of all entrants that can start; the others fail with a reason."""
        found = []
        for number, result in enumerate(results):
            try:
                found.append((result, self._job(result.entrant, self.folder / f"answers-{number}.npz")))
            except UnsupportedError as error:
                result.failed = str(error)
        return found

    def _job(self, entrant: Entrant, answers: Path) -> Job:
        """Make the job of an entrant; raise UnsupportedError if it cannot run the model."""
        if PEERS[entrant.peer].missing:
            raise UnsupportedError(PEERS[entrant.peer].missing)
        if entrant.peer.startswith("litert"):
            expect_tflite(entrant.peer, bytes_of(self.path), self.path.name)
        model = batched(self.model, entrant.batch)
        inputs = self.folder / f"inputs-{entrant.batch}.npz"
        save(inputs, stacked([sample.arrays for sample in self.samples[: entrant.batch]]))
        job = Job(
            peer=entrant.peer,
            model=str(self.path),
            inputs=str(inputs),
            answers=str(answers),
            threads=entrant.threads,
            outputs=[(o.type.dtype.numpy.name, o.type.shape) for o in model.outputs],
            shapes=() if model is self.model else [i.type.shape for i in model.inputs],
            preference=entrant.preference,
            device=self.device,
        )
        if entrant.peer.startswith("ncnn"):
            return self._for_ncnn(entrant, job)
        return self._for_onnx(model, entrant, job) if _reads_onnx(entrant.peer) else job

    def _for_ncnn(self, entrant: Entrant, job: Job) -> Job:
        if entrant.batch > 1:
            raise UnsupportedError("ncnn has no batch axis")
        written = ncnn_model.write(self.model, self.folder)
        return replace(
            job,
            ncnn_param=str(written.param),
            ncnn_weights=str(written.weights),
            ncnn_inputs=written.inputs,
            ncnn_outputs=written.outputs,
        )

    def _for_onnx(self, model: Model, entrant: Entrant, job: Job) -> Job:
        if self.onnx is not None:
            return replace(job, onnx=str(Path(self.onnx).resolve()))
        path = self.folder / f"model-{entrant.batch}.onnx"
        if not path.is_file():
            onnx_rules.write(model, path)
        return replace(job, onnx=str(path), channels_first=True)

    def judge(self, jobs: Sequence[tuple[Result, Job]]) -> str:
        """Compare the answers of all that did not fail, and return with what."""
        side = reference(self.model, self.path)
        try:
            answers = [side.run(sample) for sample in self.samples]
        finally:
            side.close()
        for result, job in jobs:
            if not result.failed:
                expected = stacked(answers[: result.entrant.batch])
                result.error = error_of(read(job.answers), expected)
        return f"{side.info.name}: {side.info.device}"


def batched(model: Model, batch: int) -> Model:
    """Return the model for `batch` times as many samples at once; the model itself for 1.

    Raises UnsupportedError if the first axis of an input or output is not a batch, or if an operation has a
    shape of its own.
    """
    if batch == 1:
        return model
    if not all(o.type.shape for o in (*model.inputs, *model.outputs)):
        raise UnsupportedError(f"cannot run in batches of {batch}: an input or output is a scalar")
    try:
        made = model.reshaped({i.name: _times(batch, i.type.shape) for i in model.inputs})
    except (ModelError, UnsupportedError) as error:
        raise UnsupportedError(f"cannot run in batches of {batch}: {error}") from None
    for old, new in zip(model.outputs, made.outputs, strict=True):
        if new.type.shape != _times(batch, old.type.shape):
            shapes = f"{list(old.type.shape)} becomes {list(new.type.shape)}"
            raise UnsupportedError(f"cannot run in batches of {batch}: output {old.name!r} {shapes}")
    return made


def can_batch(model: Model, batch: int) -> bool:
    """Tell whether batched() can make that model."""
    try:
        batched(model, batch)
    except (ModelError, UnsupportedError):
        return False
    return True


def _times(batch: int, shape: Sequence[int]) -> tuple[int, ...]:
    return (batch * shape[0], *shape[1:])


def stacked(samples: Sequence[Sequence[Array]]) -> list[Array]:
    """Join the arrays of several samples to those of one batch."""
    return [s[0] if len(s) == 1 else np.concatenate(s) for s in zip(*samples, strict=True)]


def reference(model: Model, path: Path) -> Side:
    """Open LiteRT without delegates; gpunn's CPU backend if LiteRT is not installed or refuses the file."""
    try:
        return LitertSide("litert", model, path)
    except UnsupportedError:
        return open_side(CPU, model)


def error_of(outputs: Sequence[Array], expected: Sequence[Array]) -> float | None:
    """Return the largest difference relative to the range of the expected values, over all outputs.

    None if the outputs have other shapes.
    """
    if [o.shape for o in outputs] != [e.shape for e in expected]:
        return None
    pairs = [(o.astype(np.float64), e.astype(np.float64)) for o, e in zip(outputs, expected, strict=True)]
    return float(max((np.abs(o - e).max() / (np.ptp(e) or 1.0) for o, e in pairs if e.size), default=0.0))
