"""What is imported when: a program waits only for the modules that it needs."""

from __future__ import annotations

import subprocess
import sys

import pytest

from gpunn import vision
from gpunn.bench.peers import PEERS
from tests.importers.coreml.builder import layer, model
from tests.resources import ROOT

READERS = ("tflite", "google.protobuf", "gpunn.importers.tflite.reader", "gpunn.importers.coreml.model_file")
GPU = ("wgpu", "gpunn.backends.webgpu.device")
PHOTOS = ("PIL.Image",)
MEASURED = ("gpunn.performance", "gpunn.cache")
OTHER_LAYERS = (
    *("google.protobuf.descriptor_pb2", "gpunn.importers.coreml.blocks", "gpunn.importers.coreml.control"),
    *("gpunn.importers.coreml.rules.recurrent", "gpunn.importers.coreml.rules.movement"),
)
OTHER_OPS = ("gpunn.ops.recurrent.lstm", "gpunn.ops.signal.mfcc", "gpunn.ops.fusions", "gpunn.ops.random")
RUN = f"import gpunn; gpunn.load({str(vision.default_model())!r}).compile('cpu')"


def network() -> bytes:
    """A small .mlmodel file without loops."""
    made = model((2, 4, 4))
    layer(made, "softmax")
    return bytes(made.SerializeToString())


@pytest.mark.parametrize(
    ("program", "needless"),
    [
        ("import gpunn; gpunn.__version__", ("numpy", "gpunn.errors")),
        ("import gpunn; gpunn.load, gpunn.Model, gpunn.ModelError", (*READERS, *GPU, *PHOTOS, *MEASURED)),
        ("from gpunn.cli import main; main(['--help'])", ("numpy", "rich", "gpunn.types", "gpunn.cli.bench")),
        (
            "from gpunn.cli import main; main(['classify', '--help'])",
            ("gpunn.comparison", *READERS, *GPU, *MEASURED),
        ),
        (RUN, (*GPU, *PHOTOS, *MEASURED, *OTHER_OPS, "google.protobuf", "gpunn.importers.coreml.model_file")),
        (
            f"import gpunn; gpunn.load({network()!r}).compile('cpu')",
            (*GPU, *PHOTOS, *OTHER_LAYERS, "tflite", "gpunn.importers.tflite.reader"),
        ),
    ],
    ids=["import", "load", "help", "classify", "cpu", "coreml"],
)
def test_a_program_imports_only_what_it_needs(program: str, needless: tuple[str, ...]) -> None:
    tail = f"; import sys; print(*(m for m in {needless!r} if m in sys.modules), file=sys.stderr)"
    done = subprocess.run(
        [sys.executable, "-c", program + tail], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stderr.strip() == ""


def test_a_benchmark_times_all_imports_of_what_it_measures() -> None:
    """What a worker imports before it begins is not timed."""
    program = (
        f"{PEERS['gpunn-webgpu'].statement}; import sys; before = set(sys.modules); "
        "import gpunn.bench.worker; "
        "print(*(m for m in sys.modules if m.startswith('gpunn.') and m not in before))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.split()
    assert all(module.startswith("gpunn.bench") for module in done.stdout.split())


def test_the_names_of_these_modules_are_true() -> None:
    program = (
        f"{RUN}; gpunn.devices()" + f"; import sys; print(*(m in sys.modules for m in {GPU + READERS[:1]!r}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["True"] * 3
