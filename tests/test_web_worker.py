"""The process that answers for demos/web_app.py goes on, or is replaced, whatever a file does to it."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

import gpunn
from gpunn import vision
from tests.web_server import demo, endless, noise


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    return demo("web_answers", monkeypatch)


def test_a_worker_answers_like_this_process(answers: ModuleType, tmp_path: Path) -> None:
    worker = answers.Worker(60.0, 8 << 30)
    choice = answers.Choice(vision.default_model(), None, "cpu", gpunn.Preference.LOW_POWER)
    try:
        found, expected = worker.ask(choice, noise(tmp_path)), answers.Compiled().ask(choice, noise(tmp_path))
        assert (found.best, found.placement, found.said) == (expected.best, expected.placement, expected.said)
        process = worker._process
        with pytest.raises(answers.NoAnswerError, match=r"gone\.png"):
            worker.ask(choice, tmp_path / "gone.png")
        assert worker._process is process  # an error does not end it
    finally:
        worker.close()


@pytest.mark.parametrize("backend", ["cpu", "webgpu"])
def test_an_endless_loop_gets_an_error_and_the_worker_goes_on(
    answers: ModuleType, tmp_path: Path, backend: str, gpu: str
) -> None:
    path = tmp_path / "endless.tflite"
    path.write_bytes(endless())
    assert path.stat().st_size < 4000
    worker = answers.Worker(1.0, 8 << 30)
    try:
        start = time.monotonic()
        with pytest.raises(answers.NoAnswerError, match="has not ended after 1 s"):
            worker.ask(answers.Choice(path, None, backend, gpunn.Preference.LOW_POWER), noise(tmp_path))
        assert time.monotonic() - start < 1 + answers.FINISH + answers.START
        process = worker._process
        good = answers.Choice(vision.default_model(), None, "cpu", gpunn.Preference.LOW_POWER)
        assert len(worker.ask(good, noise(tmp_path)).best) == 5
        assert worker._process is process
    finally:
        worker.close()


def test_a_worker_that_hangs_or_ends_or_grows_is_replaced(
    answers: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process is a program that misbehaves as the name of the photo says."""
    program = tmp_path / "program.py"
    program.write_text(
        "import json, os, sys, time\n"
        "for line in sys.stdin:\n"
        "    photo = json.loads(line)['photo']\n"
        "    if photo == 'hang': time.sleep(60)\n"
        "    if photo == 'abort': os.abort()\n"
        "    if photo == 'grow': kept = bytearray(os.urandom(1 << 20)) * 300; time.sleep(60)\n"
        "    print(json.dumps({'error': 'fine'}), flush=True)\n"
    )
    monkeypatch.setattr(answers, "__file__", str(program))
    monkeypatch.setattr(answers, "FINISH", 0.5)
    worker = answers.Worker(3.0, 200 << 20)
    choice = answers.Choice(vision.default_model(), None, "cpu", gpunn.Preference.LOW_POWER)
    said = {"hang": r"no answer within 3 s", "abort": "has ended", "grow": "more than 200 MB"}
    if answers._memory_of(1) == 0:
        del said["grow"]  # a system that does not tell
    try:
        for name, text in said.items():
            for photo, expected in (("good", "fine"), (name, text)):  # a new process, and one that runs
                with pytest.raises(answers.NoAnswerError, match=expected):
                    worker.ask(choice, Path(photo))
            assert worker._process is None
    finally:
        worker.close()


def test_a_closed_worker_answers_nobody(
    answers: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever waits for its turn does not start the process again, so the program can end."""
    program = tmp_path / "program.py"
    program.write_text("import sys, time\nfor line in sys.stdin:\n    time.sleep(60)\n")
    monkeypatch.setattr(answers, "__file__", str(program))
    worker, started = answers.Worker(60.0, 8 << 30), []
    start = worker._start
    monkeypatch.setattr(worker, "_start", lambda: started.append(1) or start())
    choice = answers.Choice(vision.default_model(), None, "cpu", gpunn.Preference.LOW_POWER)
    with ThreadPoolExecutor(3) as threads:
        asked = [threads.submit(worker.ask, choice, Path("photo")) for _ in range(3)]
        while worker._process is None:
            time.sleep(0.01)
        worker.close()
        for question in asked:
            with pytest.raises(answers.NoAnswerError, match=r"has ended|no longer served"):
                question.result(timeout=30)
    assert worker._process is None
    assert len(started) == 1


def test_models_of_the_page_have_limits(answers: ModuleType, tmp_path: Path) -> None:
    packaged = answers.Choice(vision.default_model(), None, "cpu", gpunn.Preference.LOW_POWER)
    choice = replace(packaged, model=tmp_path / "uploaded.tflite")
    choice.model.write_bytes(packaged.model.read_bytes())
    size = choice.model.stat().st_size
    worker = answers.Worker(60.0, 8 << 30, size - 1)
    try:
        assert worker.ask(packaged, noise(tmp_path)).best, "it was not uploaded"
        with pytest.raises(
            answers.NoAnswerError, match=f"has {size} bytes, the limit file_bytes is {size - 1}"
        ):
            worker.ask(choice, noise(tmp_path))
    finally:
        worker.close()
    with pytest.raises(gpunn.LimitError, match="the limit constant_bytes is 512"):
        answers.Compiled(answers.limits(60.0, 1024, size)).ask(choice, noise(tmp_path))
    assert all(getattr(answers.limits(1.0, 2, 3), name) is not None for name in gpunn.Limits.__slots__)


def test_the_worker_does_not_use_the_network(answers: ModuleType) -> None:
    for event in ("socket.connect", "socket.getaddrinfo"):
        with pytest.raises(PermissionError):
            answers._no_network(event, ())
    answers._no_network("open", ())
