"""The answers of web_app.py's page, computed in a process of their own.

Files from elsewhere are opened only there. If an answer takes too long or too much memory, or the process
ends, the page says so, and the next question gets a new process. Run as a program, this file is that process:
it reads a question from each line of its input and writes a line with the answer, both as JSON.
"""

from __future__ import annotations

import base64
import contextlib
import io
import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections import Counter, OrderedDict
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from web_teach import Lesson, Taught, teach

import gpunn
from gpunn import vision

KEPT = 6  # compilations at a time: two backends of each of the last three choices
CALLS = 9  # whose median time is shown, unless they take more than a second
LOOK = 0.1  # seconds between two looks at the memory of the process
NOT_SERVED = "the page is no longer served"
START = 60.0  # seconds that a new process may take more, for its imports
OPERATORS = 20_000  # of a model; MobileNet has about 100
FINISH = 5.0  # seconds that an answer may take more than the run in it


class NoAnswerError(Exception):
    """There is no answer; the text says why."""


@dataclass(frozen=True)
class Choice:
    """A question: a model file, its class names if the file has none, backend, preference, range of pixels.

    pixels: one of vision.RANGES; None leaves it to the file.
    """

    model: Path
    labels: Path | None
    backend: str
    preference: gpunn.Preference
    pixels: str | None = None


@dataclass(frozen=True)
class Answer:
    """The answer to a question.

    known: whether the best class is sure, None if the model does not tell; knows: which classes the model
    knows. seconds: the median of some calls; ready: the preparation before them, if any. thumbnail: the photo
    as an address that holds its data.
    """

    backend: str
    device: str
    best: tuple[vision.Guess, ...]
    probabilities: bool
    known: bool | None
    knows: str
    pixels: str
    seconds: float
    ready: float | None
    placement: tuple[tuple[str, str, str, str], ...]
    thumbnail: str

    @property
    def other(self) -> str:
        """Return the backend for a second opinion."""
        return "cpu" if self.backend == "webgpu" else "webgpu"

    @property
    def places(self) -> str:
        """Describe how many operations ran in each place."""
        where = Counter(place for _, _, place, _ in self.placement)
        return ", ".join(f"{count} {'on ' * (p != 'alias')}{p}" for p, count in where.most_common())

    @property
    def said(self) -> str:
        """Say what the photo shows."""
        return vision.verdict(self.best[0], self.known, probability=self.probabilities)


class Compiled:
    """The last KEPT compilations that were used; older ones are closed. One thread asks at a time."""

    def __init__(self, limits: gpunn.Limits | None = None) -> None:
        """Let models take so much."""
        self._kept: OrderedDict[Choice, tuple[vision.Classifier, gpunn.Compilation]] = OrderedDict()
        self._lock = threading.Lock()
        self._limits = limits

    def ask(self, choice: Choice, photo: Path) -> Answer:
        """Return the best classes of a photo. Raises gpunn's errors, and OSError for files that cannot be
        opened.
        """
        with self._lock:
            start = time.perf_counter()
            known = self._kept.get(choice)
            classifier = known[0] if known else self._classifier(choice)
            picture = vision.load_photo(photo)
            (x,) = classifier.photos.batches(iter([classifier.photos.values(picture)]))
            compiled = known[1] if known else classifier.model.compile(choice.backend, choice.preference)
            self._run(compiled, x)  # the first call is a slow one
            self._keep(choice, classifier, compiled)
            times = [time.perf_counter()]
            while len(times) <= CALLS and times[-1] < times[0] + 1:
                answer, *_ = classifier.answers(self._run(compiled, x))
                times.append(time.perf_counter())
        return Answer(
            backend=compiled.backend,
            device=compiled.device,
            best=answer.best,
            probabilities=answer.probabilities,
            known=answer.known,
            knows=vision.known_classes(classifier.model, classifier.labels),
            pixels=classifier.wanted.described("the setting Pixels"),
            seconds=float(np.median(np.diff(times))),
            ready=None if known is not None else times[0] - start,
            placement=placement(compiled),
            thumbnail=thumbnail(picture),
        )

    def limits_of(self, model: Path) -> gpunn.Limits | None:
        """Return the limits of a model; the packaged one was not uploaded, so its file may have any size."""
        if self._limits is None or model != vision.default_model():
            return self._limits
        return replace(self._limits, file_bytes=None)

    def _classifier(self, choice: Choice) -> vision.Classifier:
        model = gpunn.load(choice.model, limits=self.limits_of(choice.model))
        mean, std = vision.RANGES[choice.pixels] if choice.pixels else (None, None)
        return vision.classifier(model, labels=choice.labels, mean=mean, std=std)

    def _run(self, compiled: gpunn.Compilation, x: Any) -> tuple[Any, ...]:
        (name,) = (operand.name for operand in vision.mandatory(compiled.model))
        return tuple(compiled.run({name: x}).values())

    def _keep(self, choice: Choice, classifier: vision.Classifier, compiled: gpunn.Compilation) -> None:
        self._kept[choice] = classifier, compiled
        self._kept.move_to_end(choice)
        if len(self._kept) > KEPT:
            self._kept.popitem(last=False)[1][1].close()


def placement(compiled: gpunn.Compilation) -> tuple[tuple[str, str, str, str], ...]:
    """List each operation of a run with its result, where it ran, and why not on the GPU."""
    rows = []
    for place in compiled.placement:
        operation, activation = place.operation, place.operation.attrs.get("activation")
        called = f"{operation.op} + {activation}" if activation else operation.op
        rows.append((called, str(operation.outputs[0].type), place.backend, place.reason))
    return tuple(rows)


def thumbnail(picture: Any) -> str:
    """Return a picture of Pillow's, made small, as an address that holds its data."""
    small, data = picture.copy(), io.BytesIO()
    small.thumbnail((480, 360))
    small.save(data, "JPEG")
    return f"data:image/jpeg;base64,{base64.b64encode(data.getvalue()).decode()}"


class Worker:
    """A process that answers, one question at a time; it is started when it is needed."""

    def __init__(self, seconds: float, memory: int, upload: int = 200 << 20) -> None:
        """Let an answer take so many seconds, the process so many bytes of memory, a file `upload` bytes."""
        self._seconds, self._memory, self._upload = seconds, memory, upload
        self._process: subprocess.Popen[str] | None = None
        self._lines: queue.Queue[str] = queue.Queue()
        self._lock, self._closed = threading.Lock(), False

    def ask(self, choice: Choice, photo: Path) -> Answer:
        """Return the best classes of a photo; raise NoAnswerError if there is no answer."""
        asked = {
            "model": str(choice.model),
            "labels": None if choice.labels is None else str(choice.labels),
            "backend": choice.backend,
            "preference": choice.preference.name,
            "pixels": choice.pixels,
            "photo": str(photo),
        }
        found = self._answer(asked)
        best = tuple(vision.Guess(**guess) for guess in found["best"])
        return Answer(**{**found, "best": best, "placement": tuple(map(tuple, found["placement"]))})

    def teach(self, lesson: Lesson) -> Taught:
        """Teach a lesson, and write its file; raise NoAnswerError if that does not work."""
        found = self._answer(lesson.asked)
        epochs = tuple(map(tuple, found["epochs"]))
        return Taught(**{**found, "labels": tuple(found["labels"]), "epochs": epochs})

    def _answer(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Return what the process answers to a question; raise NoAnswerError for an error."""
        with self._lock:
            found: dict[str, Any] = json.loads(self._exchange(json.dumps(asked)))
        if "error" in found:
            raise NoAnswerError(found["error"])
        return found

    def close(self) -> None:
        """End the process; who waits for its answer, or asks later, gets a NoAnswerError."""
        self._closed = True
        self._end()

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        process.wait()
        self._reader.join()
        for stream in (process.stdin, process.stdout):
            with contextlib.suppress(OSError):  # a question that the process did not read
                assert stream is not None
                stream.close()

    def _exchange(self, line: str) -> str:
        if self._closed:
            raise self._given_up(NOT_SERVED)
        deadline = time.monotonic() + self._seconds + FINISH
        process = self._process
        if process is None or process.poll() is not None:
            self._end()
            process, deadline = self._start(), deadline + START
        assert process.stdin is not None
        try:
            process.stdin.write(line + "\n")
            process.stdin.flush()
        except (OSError, ValueError):  # ValueError: close() has closed it
            raise self._given_up("the process that answers has ended; ask again") from None
        while True:
            answer = None
            with contextlib.suppress(queue.Empty):
                answer = self._lines.get(timeout=LOOK)
            if answer:
                return answer
            if self._closed:
                raise self._given_up(NOT_SERVED)  # close() may have come before the process was there
            if answer == "":
                raise self._given_up("the process that answers has ended, because of this model or photo")
            if time.monotonic() > deadline:
                raise self._given_up(f"no answer within {self._seconds:g} s (--seconds)")
            if _memory_of(process.pid) > self._memory:
                raise self._given_up(f"the answer needs more than {self._memory >> 20} MB (--memory)")

    def _given_up(self, reason: str) -> NoAnswerError:
        """End the process; return the error for who waits for its answer."""
        self._end()
        return NoAnswerError(reason)

    def _start(self) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, __file__, *map(str, (self._seconds, self._memory, self._upload))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            encoding="utf-8",
        )
        self._lines = queue.Queue()
        self._reader = threading.Thread(target=_read, args=(process, self._lines), daemon=True)
        self._reader.start()
        self._process = process
        return process


def _read(process: subprocess.Popen[str], lines: queue.Queue[str]) -> None:
    """Pass on the lines of a process, and "" when it has ended."""
    assert process.stdout is not None
    for line in process.stdout:
        lines.put(line)
    lines.put("")


def _memory_of(pid: int) -> int:
    """Return the bytes of memory that a process has, 0 where the system does not tell as Linux does."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError, AttributeError):
        return 0


def limits(seconds: float, memory: int, upload: int) -> gpunn.Limits:
    """Return what a model of the page may take: a compile and a run `seconds` each, and bytes.

    The process is killed above `memory`, where the system tells how much it has; of this half is for tensors.
    """
    return gpunn.Limits(
        file_bytes=upload,
        operators=OPERATORS,
        constant_bytes=memory // 2,
        host_bytes=memory // 2,
        device_bytes=memory // 2,
        compile_seconds=seconds,
        run_seconds=seconds,
    )


def _no_network(event: str, _: tuple[Any, ...]) -> None:
    """Forbid the process to ask the network for anything (a hook of sys.addaudithook)."""
    if event in ("socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendto"):
        raise PermissionError("the process that answers does not use the network")


def choice_of(asked: dict[str, Any]) -> Choice:
    """Return the choice in a question."""
    return Choice(
        Path(asked["model"]),
        Path(asked["labels"]) if asked["labels"] else None,
        asked["backend"],
        gpunn.Preference[asked["preference"]],
        asked["pixels"],
    )


def main() -> None:
    """Answer questions until the input ends."""
    sys.addaudithook(_no_network)
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what else is printed is no answer
    seconds = float(sys.argv[1])
    compiled = Compiled(limits(seconds, int(sys.argv[2]), int(sys.argv[3])))
    for line in sys.stdin:
        asked = json.loads(line)
        try:
            if "lesson" in asked:
                lesson = Lesson.of(asked["lesson"])
                found = asdict(teach(lesson, seconds, compiled.limits_of(lesson.model)))
            else:
                found = asdict(compiled.ask(choice_of(asked), Path(asked["photo"])))
        except (gpunn.GpunnError, OSError, MemoryError, RecursionError) as error:
            found = {"error": str(error) or type(error).__name__}
        print(json.dumps(found), file=out, flush=True)


if __name__ == "__main__":
    main()
