"""The measured libraries by name, and gpunn itself; the others have modules of their own."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from gpunn.bench.job import Job
from gpunn.types import Array


class Peer(Protocol):
    """A library with a model. `version` and `device` describe what ran, once load() has returned."""

    version: str
    device: str

    def load(self, job: Job) -> None:
        """Read the model and make it ready."""

    def prepare(self, inputs: Sequence[Array]) -> Sequence[Array]:
        """Convert the model's inputs to the library's layout; not timed."""

    def call(self, inputs: Sequence[Array]) -> Sequence[Array]:
        """Run once, from arrays in host memory to arrays in host memory."""

    def stream(self, frames: Iterable[Sequence[Array]]) -> Iterator[object]:
        """Run one frame after another, in the library's fastest way."""

    def restore(self, outputs: Sequence[Array]) -> Sequence[Array]:
        """Convert the results of call() to the model's layout; not timed."""


class Plain:
    """A library with the model's layouts that can only repeat single runs."""

    version = ""
    device = "cpu"

    def prepare(self, inputs: Sequence[Array]) -> Sequence[Array]:
        return inputs

    def call(self, inputs: Sequence[Array]) -> Sequence[Array]:
        raise NotImplementedError

    def stream(self, frames: Iterable[Sequence[Array]]) -> Iterator[object]:
        return map(self.call, frames)

    def restore(self, outputs: Sequence[Array]) -> Sequence[Array]:
        return outputs


class Gpunn(Plain):
    """gpunn with one of its backends."""

    def __init__(self, backend: str) -> None:
        self._backend = backend

    def load(self, job: Job) -> None:
        import gpunn

        self.version = gpunn.__version__
        model = gpunn.load(job.model)
        self._compiled = model.compile(
            backend=self._backend,
            preference=gpunn.Preference[job.preference] if job.preference else None,
            device=job.device if self._backend == "webgpu" else None,
            shapes={i.name: s for i, s in zip(model.inputs, job.shapes, strict=False)},
        )
        self.device = self._compiled.device

    def call(self, inputs: Sequence[Array]) -> Sequence[Array]:
        result = self._compiled(*inputs)
        return result if isinstance(result, tuple) else (result,)

    def stream(self, frames: Iterable[Sequence[Array]]) -> Iterator[object]:
        return self._compiled.stream(tuple(frame) for frame in frames)


@dataclass(frozen=True, slots=True)
class Kind:
    """A way to make a peer: `maker` of `module` with `arguments`; its import time is that of `statement`."""

    statement: str
    package: str
    module: str
    maker: str
    arguments: tuple[str, ...] = ()

    def make(self) -> Peer:
        """Make a peer without a model; raise ImportError if its library is not installed."""
        peer: Peer = getattr(importlib.import_module(self.module), self.maker)(*self.arguments)
        return peer

    @property
    def missing(self) -> str:
        """Say why it cannot be started; "" if it is installed."""
        if importlib.util.find_spec(self.statement.split()[1].partition(".")[0]) is not None:
            return ""
        return f"the package {self.package} is not installed"


OURS = {  # the package alone would import nothing
    f"gpunn-{backend}": Kind("from gpunn import load", "gpunn", __name__, "Gpunn", (backend,))
    for backend in ("webgpu", "cpu")
}
OTHERS = {
    "litert": Kind("import ai_edge_litert.interpreter", "ai-edge-litert", f"{__name__}.litert", "Litert"),
    "litert-gpu": Kind(
        "import ai_edge_litert.compiled_model", "ai-edge-litert", f"{__name__}.litert", "LitertGpu"
    ),
    "onnxruntime": Kind(
        "import onnxruntime", "onnxruntime", f"{__name__}.onnx", "Onnx", ("CPUExecutionProvider",)
    ),
    "onnxruntime-webgpu": Kind(
        "import onnxruntime", "onnxruntime-webgpu", f"{__name__}.onnx", "Onnx", ("WebGpuExecutionProvider",)
    ),
    "ncnn": Kind("import ncnn", "ncnn", f"{__name__}.ncnn", "Ncnn", ("cpu",)),
    "ncnn-vulkan": Kind("import ncnn", "ncnn", f"{__name__}.ncnn", "Ncnn", ("vulkan",)),
}
PEERS = {**OURS, **OTHERS}
