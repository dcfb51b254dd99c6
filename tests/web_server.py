"""demos/web_app.py as a server whose requests to other machines are recorded, and files to ask it about."""

from __future__ import annotations

import contextlib
import importlib
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from PIL import Image

from gpunn.types import DType, TensorType, float32
from tests.resources import ENVIRONMENT, ROOT
from tests.tflite_builder import Graph

PATIENCE = 120.0  # seconds until it serves; the import of gradio alone takes some of them
# The program, which prints every address outside this machine that Python requests.
WATCHED = """
import os, runpy, sys
def watch(event, args):
    host = {"socket.getaddrinfo": lambda: args[0], "socket.connect": lambda: args[1][0]}.get(event)
    if host and str(host()) not in ("127.0.0.1", "localhost", "/"):
        print("asks for", host(), flush=True)
sys.addaudithook(watch)
sys.argv.pop(0)
sys.path.insert(0, os.path.dirname(sys.argv[0]))  # as where a program is run by its file
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def demo(name: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Import a module of demos/, which the processes that it starts find, too."""
    monkeypatch.syspath_prepend(ROOT / "demos")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    return importlib.import_module(name)


@contextlib.contextmanager
def serving(folder: Path, *options: object) -> Iterator[tuple[str, Path]]:
    """Serve the page; yield its address and the file of the program's output. Uploads go to `folder`.

    When it is terminated, nothing of it may stay in the folder for temporary files.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    log = folder / "log"
    temporary = folder / "temporary"
    temporary.mkdir()
    environment = {
        **ENVIRONMENT,
        "PYTHONPATH": str(ROOT),
        "GRADIO_TEMP_DIR": str(folder / "uploads"),
        "TMPDIR": str(temporary),
    }
    command = [sys.executable, "-c", WATCHED, str(ROOT / "demos" / "web_app.py"), "--port", str(port)]
    command += map(str, options)
    with log.open("wb") as stream:
        process = subprocess.Popen(command, stdout=stream, stderr=stream, env=environment)
        try:
            deadline = time.monotonic() + PATIENCE
            while "Running on" not in log.read_text():
                if process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError(f"the page is not served: {log.read_text()}")
                time.sleep(0.1)
            yield f"http://127.0.0.1:{port}/", log
        finally:
            process.terminate()
            status = process.wait(30)
    assert status == 128 + signal.SIGTERM, f"it ended with {status}: {log.read_text()}"
    assert not [*temporary.iterdir()]


def endless() -> bytes:
    """Return a classifier of about 1 KB whose loop never ends."""
    condition, body, main = Graph(), Graph(), Graph()
    row, truth = float32(1, 10), TensorType(DType.BOOL, (1,))
    condition_end = condition.add(
        "GREATER_EQUAL", [condition.input(row)] * 2, [TensorType(DType.BOOL, (1, 10))]
    )
    condition_end = condition.add("REDUCE_ALL", [*condition_end, condition.constant(np.int32([1]))], [truth])
    body_end = body.add("ABS", [body.input(row)], [row])
    photo = main.input(float32(1, 4, 4, 3))
    (flat,) = main.add("RESHAPE", [photo, main.constant(np.int32([1, 48]))], [float32(1, 48)])
    start, extent = (main.constant(np.int32(values)) for values in ([0, 0], [1, 10]))
    scores = main.add("SLICE", [flat, start, extent], [row])
    options = {"cond_subgraph_index": 1, "body_subgraph_index": 2}
    ends = main.add("WHILE", scores, [row], options)
    return main.build(ends, called=[(condition, condition_end), (body, body_end)])


def noise(folder: Path) -> Path:
    """Write a picture of noise; return its path."""
    path = folder / "photo.png"
    Image.fromarray(np.random.default_rng(3).integers(0, 256, (50, 60, 3), np.uint8)).save(path)
    return path


def colours(folder: Path, count: int = 5) -> dict[str, list[str]]:
    """Write photos of two colours; return their paths by colour."""
    found: dict[str, list[str]] = {}
    for colour in ("red", "blue"):
        for number in range(count):
            path = folder / f"{colour}-{number}.png"
            Image.new("RGB", (20, 20), colour).save(path)
            found.setdefault(colour, []).append(str(path))
    return found
