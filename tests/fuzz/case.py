"""One case: a damaged file is read, compiled, run and compared, and what happened gets a name."""

from __future__ import annotations

import hashlib
import re
import traceback
from dataclasses import dataclass
from pathlib import Path
from random import Random

import numpy as np

import gpunn
from gpunn.comparison.inputs import Sample, random_source
from gpunn.graph.parts import walk
from tests.fuzz.seeds import FORMATS, Format, damaged

RUN_SECONDS = 5.0  # for a run, after which it must end by itself
RUN_BYTES = 32 << 20  # of all tensors: larger models are compiled for the CPU, but not run
FUNCTIONS = 3  # the last ones, that tell errors apart; lines would differ from commit to commit
BACKENDS = ("cpu", "webgpu")
_SPECIAL = re.compile(r"[^\s(),]*[^\sa-z(),:][^\s(),]*")  # words with more than small letters: names, numbers


@dataclass(frozen=True, slots=True)
class Outcome:
    """What happened: `fault` says why it must not; `key` is the same for cases that are alike."""

    key: str
    fault: str = ""

    @property
    def kind(self) -> str:
        """Return the first word of the key: model, or the class of an error."""
        return self.key.split()[0]


def make(seed: str, number: int, corpus: Path) -> tuple[bytes, str]:
    """Return the file of a case, and its suffix."""
    format = format_of(number)
    return damaged(format, Random(f"{seed} {number}"), corpus), format.suffix


def format_of(number: int) -> Format:
    """Return the format of a case; the formats take turns."""
    return FORMATS[number % len(FORMATS)]


def judge(data: bytes, number: int, backends: tuple[str, ...]) -> Outcome:
    """Read, compile and run a file, and compare what the backends answer."""
    try:
        return _used(gpunn.load(data), number, backends)
    except gpunn.RunTimeoutError:
        return Outcome("RunTimeoutError")
    except gpunn.GpunnError as error:
        text = str(error)
        fault = "" if len(text) < 20_000 else f"a message of {len(text)} characters"
        said = _SPECIAL.sub("#", text.partition(";")[0])[:200]
        return Outcome(f"{type(error).__name__} {' '.join(_functions(error))} {said}", fault)
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{Path(place.filename).name}:{place.lineno}"
        return Outcome(f"{type(error).__name__} at {where}", f"{type(error).__name__} at {where}: {error}")


def _functions(error: BaseException) -> list[str]:
    """Return the last functions that an error came through, or the one that led to it."""
    trace = traceback.extract_tb((error.__cause__ or error).__traceback__)
    return [f"{Path(place.filename).stem}.{place.name}" for place in trace[-FUNCTIONS:]]


def _used(model: gpunn.Model, number: int, backends: tuple[str, ...]) -> Outcome:
    """Compile and run a model that could be read."""
    key = "model " + " ".join(sorted({o.op for body in walk(model) for o in body.operations}))
    if sum(o.type.nbytes for body in walk(model) for o in body.operands()) > RUN_BYTES:
        return Outcome(key + " large")
    try:
        (sample,) = random_source(model, 1, number).samples
    except gpunn.ModelError:  # inputs that cannot be drawn, such as strings
        return Outcome(key + " unfed")
    answers = {}
    for backend in backends:
        with model.compile(backend) as compiled:
            fed = {i.name: array for i, array in zip(model.inputs, sample.arrays, strict=True)}
            answers[backend] = compiled.run(fed, timeout=RUN_SECONDS)
    if len(answers) == 2 and not _alike(*answers.values()):
        return Outcome(key, _difference(model, sample, backends))
    return Outcome(key)


def _alike(one: dict[str, np.ndarray], two: dict[str, np.ndarray]) -> bool:
    """Tell whether answers are so near that nothing needs to be derived."""
    return all(
        a.dtype == b.dtype
        and a.shape == b.shape
        and (np.array_equal(a, b) if a.dtype.kind not in "fc" else np.allclose(a, b, 1e-6, 0, equal_nan=True))
        for a, b in zip(one.values(), two.values(), strict=True)
    )


def _difference(model: gpunn.Model, sample: Sample, backends: tuple[str, ...]) -> str:
    """Say which output is beyond its derived tolerance; "" if none is."""
    found = gpunn.compare(model, [tuple(sample.arrays)], backends, reference=backends[0])
    for pair in found.pairs:
        for output in pair.outputs:
            if output.ok is False:
                error = output.metrics.max_abs_error
                return f"{pair.candidate} differs from {pair.reference} in {output.name!r} by {error:g}"
    return ""


def keep(corpus: Path, outcome: Outcome, data: bytes, suffix: str) -> bool:
    """Keep the file in the corpus if it is the first, or the smallest, of its outcome; tell whether it is."""
    path = corpus / f"{hashlib.sha256(outcome.key.encode()).hexdigest()[:16]}{suffix}"
    if path.exists() and path.stat().st_size <= len(data):
        return False
    part = path.with_suffix(f".{hashlib.sha256(data).hexdigest()[:8]}")
    part.write_bytes(data)
    part.replace(path)
    return True
